"""LSTM, GRU and RNN: readers of text in images and of sound, made of PyTorch's modules, and torchaudio's."""
from .entry import Entry


def reader(cell, size):
    """CRNN (Shi, Bai and Yao, 2015) at half its width: convolutions down to one row, two bidirectional cells, and a
    linear layer for every column."""
    import torch
    from .wrap import Flat, image
    nn = torch.nn

    def block(inside, outside, pool=None, norm=False):
        parts = [nn.Conv2d(inside, outside, 3, padding=1), *([nn.BatchNorm2d(outside)] if norm else []), nn.ReLU()]
        return parts + ([nn.MaxPool2d(*pool)] if pool else [])
    wide = ((2, 2), (2, 1), (0, 1))
    pixels = nn.Sequential(*block(1, 32, (2, 2)), *block(32, 64, (2, 2)), *block(64, 128, None, True),
                           *block(128, 128, wide), *block(128, 256, None, True), *block(256, 256, wide),
                           nn.Conv2d(256, 256, 2), nn.BatchNorm2d(256), nn.ReLU())
    parts = nn.ModuleDict({"pixels": pixels, "letters": nn.Linear(256, 37),
                           "columns": getattr(nn, cell)(256, 128, num_layers=2, bidirectional=True, batch_first=True)})

    def read(net, x):
        columns = net["pixels"](x).squeeze(2).transpose(1, 2)  # (N, columns, 256)
        return net["letters"](net["columns"](columns)[0])
    return Flat(parts, read), image(size, channels=1)


def sequence(cell, options, length, last):
    """A cell over a sequence of vectors, and a linear layer of all its states or the last."""
    import torch
    from .wrap import Flat
    net = torch.nn.ModuleDict({"cell": getattr(torch.nn, cell)(48, 64, batch_first=True, **dict(options)),
                               "head": torch.nn.Linear(64 * (2 if dict(options).get("bidirectional") else 1), 20)})

    def run(net, x):
        states = net["cell"](x)[0]
        return net["head"](states[:, -1] if last else states)
    return Flat(net, run), {"sequence": torch.randn(2, length, 48)}


def language_model(length):
    """Tokens to tokens by two layers of LSTM whose table of embeddings is the last matrix, too."""
    import torch
    from .wrap import Flat
    net = torch.nn.ModuleDict({"embedding": torch.nn.Embedding(1000, 96),
                               "cell": torch.nn.LSTM(96, 96, num_layers=2, batch_first=True)})
    return (Flat(net, lambda net, x: net["cell"](net["embedding"](x))[0] @ net["embedding"].weight.T),
            {"tokens": torch.randint(0, 1000, (2, length))})


def speech(name, config, inputs, constants=()):
    from .named import called, resolved
    return called(resolved("torchaudio", f"models.{name}")(**config), inputs, constants)


def conformer():
    import torch
    import torchaudio
    from .wrap import Flat
    net = torchaudio.models.Conformer(input_dim=80, num_heads=4, ffn_dim=128, num_layers=2, depthwise_conv_kernel_size=31)
    return (Flat(net, lambda net, x: net(x, torch.full((x.shape[0],), x.shape[1], device=x.device))[0]),
            {"frames": torch.randn(1, 64, 80)})


CELLS = [("lstm_last", "LSTM", (("num_layers", 2),), 24, True), ("gru_sequence", "GRU", (("num_layers", 2),), 24, False),
         ("rnn_tanh", "RNN", (), 24, False), ("rnn_relu", "RNN", (("nonlinearity", "relu"), ("bidirectional", True)), 12, False)]
SPEECH = [("conv_tasnet", "ConvTasNet", {"num_sources": 2, "enc_num_feats": 64, "msk_num_feats": 32, "msk_num_hidden_feats": 64,
           "msk_num_layers": 3, "msk_num_stacks": 2}, {"input": (1, 1, 2000)}),
          ("deepspeech", "DeepSpeech", {"n_feature": 40, "n_hidden": 96, "n_class": 30}, {"x": (1, 1, 24, 40)}),
          ("wav2letter", "Wav2Letter", {"num_classes": 40, "input_type": "mfcc", "num_features": 13}, {"x": (1, 13, 200)}),
          ("wavernn", "WaveRNN", {"upsample_scales": [2, 2, 2], "n_classes": 64, "hop_length": 8, "n_res_block": 2, "n_rnn": 64,
           "n_fc": 64, "kernel_size": 3, "n_freq": 40, "n_hidden": 32, "n_output": 32},
           {"waveform": (1, 1, 64), "specgram": (1, 1, 40, 10)})]

ENTRIES = ([Entry("torch", f"crnn_{cell.lower()}", reader, (cell, (32, 96))) for cell in ("LSTM", "GRU")]
           + [Entry("torch", name, sequence, (cell, options, length, last), convolutional=False)
              for name, cell, options, length, last in CELLS]
           + [Entry("torch", "lstm_language_model", language_model, (16,), convolutional=False)]
           + [Entry("torchaudio", "conformer", conformer, convolutional=False)]
           + [Entry("torchaudio", name, speech, arguments, gpu_batch=2) for name, *arguments in SPEECH])
