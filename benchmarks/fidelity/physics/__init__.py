"""Boards of known energy and what their meters print: to prove an estimator of energy against.

A `World` is one piece of physics, a `Meter` one instrument; `simulate(world, meter, seed)` gives a `Run`:
stamped lines, stamped spans and the true joules of each. Power is a sum of straight pieces in continuous
time: all integrals are exact, and nothing is sampled but by the meter. Seed, world and meter fix every draw.

Net energy. Power has four parts, each exact at every instant:
`idle`  what the board would draw had it idled at that moment: its level, background noise, slow wander, drift
        of the room, and daemons that run whatever the board does;
`warm`  what a die that is warm from training draws more than a cold one, and its fan. A board that idled at
        that moment would be just as warm, so this counts as idle as well; `Run.warm_j` gives it apart;
`work`  what the span itself causes while it lasts;
`tail`  what a span causes after its end: a radio that stays awake, threads that spin, a card that tidies up.
`true_net_j` = work + tails of *other* spans that fall into the span: all power above idle, wherever it comes
from. `tail_j` is that foreign part, `tail_of_j` what the span itself left to later ones. So net without tails
is `true_net_j - tail_j`, and net by cause `true_net_j - tail_j + tail_of_j`.
True joules are taken between the true borders; `spans` carry the borders as an agent stamps them.
"""
