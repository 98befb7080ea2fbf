"""`penstock bench overflow`: state that exceeds memory, parked or moved, as in the experiments of D-Cape and Flux.

Every part is an `Experiment`. Queries run in one process, epoch by epoch with a fixed number of rows, and rounds follow
a simulated clock: so what is decided, and how many results an epoch has, is the same in every run. What is measured is
processor time.
"""
