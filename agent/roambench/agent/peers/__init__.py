"""Exchange of models between devices: a peer port, links to those of neighbours, the mix."""
