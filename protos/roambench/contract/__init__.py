"""The words both sides share: readings, orders, models as bytes, phases, errors. No torch, no serial."""
