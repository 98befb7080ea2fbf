"""The tests of Penstock. A package, so that `tests.support` can be imported wherever the checkout is on the path."""
