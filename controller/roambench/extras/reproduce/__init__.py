"""The five papers' tables and figures: which there are, the sweeps behind them, and what came out."""
