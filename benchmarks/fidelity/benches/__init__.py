"""A second generator of boards and meters whose energy is known, beside `fidelity.physics`.

Written from the meters' specification without a look at estimator or emulator; shares no code with them nor
with `fidelity.physics`. `simulate(world, meter, seed)` gives a `Run`. The board depends on world and seed
only, so that all meters look at the same run. Power is constant between fine irregular edges (those of every
rectangle, and a grid of 20 ms for noise and slow terms): true joules and what meters average are exact.

Net energy: what the board draws above idle. Idle has its level, drift, noise, daemons, and also what a die
that is warm from training leaks, while it trains as well, and a fan that its temperature keeps running.
Seconds count from the first true border; lines come from about 5 s before the spans to 5 s after them.
Meters are calibrated exactly but for the Smart Power 2's own +0.059 %, unless the world says otherwise.

A world is `fair` (an estimator should be right and raise no flag), `ordinary` (what benches are like) or
`pathological` (clocks that lock to each other). Its docstring says its physics and, last, what its author
took for measurable in it.
"""
