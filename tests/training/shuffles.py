"""The order in which `unisono train` takes examples (tools/training/data.cpp), for trainings beside it."""

WORD = (1 << 64) - 1


class Generator:
    """SplitMix64."""

    def __init__(self, state):
        self.state = state

    def next(self):
        z = self.state = (self.state + 0x9E3779B97F4A7C15) & WORD
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
        return z ^ (z >> 31)

    def below(self, bound):
        least = (1 << 64) % bound
        while (x := self.next()) < least:
            pass
        return x % bound


def shuffled(count, seed, epoch):
    order = list(range(count))
    random = Generator(Generator(seed).next() ^ ((epoch * 0xD1342543DE82EF95) & WORD))
    for i in range(count, 1, -1):
        j = random.below(i)
        order[i - 1], order[j] = order[j], order[i - 1]
    return order


def batch_of(step, examples, batch, seed, orders={}):
    """The examples of a step, counted from 0; the permutations of epochs are kept."""
    epoch, number = divmod(step, examples // batch)
    key = examples, seed, epoch
    if key not in orders:
        orders[key] = shuffled(*key)
    return orders[key][number * batch : (number + 1) * batch]
