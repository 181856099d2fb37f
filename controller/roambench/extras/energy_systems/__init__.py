"""Systems of other authors that spend energy or availability wisely: EAFL, REFL, FedZero."""
