"""Networks and modules that others wrote, small, with all parameters and running statistics drawn anew by a seed.

Each maker returns a module and its inputs. Libraries start scales at 1, shifts at 0 and last layers at 0: whatever is wrong
behind such a number would change nothing.
"""

import contextlib
import io
import math
import warnings

import torch
import torch.nn as nn


def _draw(module, name, p, generator):
    vector = p.numel() == max(p.shape, default=1)
    if vector and "bias" in name:
        p.copy_(0.2 * torch.randn(p.shape, generator=generator))
    elif vector:
        p.copy_(0.5 + torch.rand(p.shape, generator=generator))
    else:
        fan = 1 if isinstance(module, nn.Embedding) else math.prod(p.shape[1:])
        if isinstance(module, nn.modules.conv._ConvTransposeNd):
            fan = max(p.shape[0] // module.groups * math.prod(p.shape[2:]) // math.prod(module.stride), 1)
        elif p.dim() == 3 and not isinstance(module, nn.modules.conv._ConvNd):
            fan = p.shape[1]  # experts: (experts, inputs, outputs)
        p.copy_(torch.randn(p.shape, generator=generator) * (1.4 if isinstance(module, nn.modules.conv._ConvNd) else 1.0) / math.sqrt(fan))


def drawn(module, seed=0):
    """All parameters by a seed, and running statistics: means near 0, variances near 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for part in module.modules():
            for name, p in part.named_parameters(recurse=False):
                _draw(part, name, p, generator)
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                part.running_mean.copy_(0.2 * torch.randn(part.running_mean.shape, generator=generator))
                part.running_var.copy_(0.8 + 1.2 * torch.rand(part.running_var.shape, generator=generator))
    return module.eval()


class Call(nn.Module):
    """call(net, *inputs) as a module whose result is a tuple of tensors."""

    def __init__(self, net, call=lambda net, *inputs: net(*inputs)):
        super().__init__()
        self.net, self.call = net, call

    def forward(self, *inputs):
        return tuple(_tensors(self.call(self.net, *inputs)))


def _tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif value is not None:
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors(part)


@contextlib.contextmanager
def _quiet():
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def image(*size, channels=3, batch=1):
    return torch.randn(batch, channels, *size)


def segmentation(name, size=65):
    from torchvision.models import segmentation as them
    net = getattr(them, name)(weights=None, weights_backbone=None, num_classes=5)
    return Call(net, lambda net, x: net(x)["out"]), (image(size, size),)


def detection_head(name):
    from functools import partial
    from torchvision.models.detection import fcos, retinanet
    norm = partial(nn.GroupNorm, 8)
    head = retinanet.RetinaNetHead(32, 3, 7, norm_layer=norm) if name == "retinanet" else fcos.FCOSHead(32, 1, 7, 2)
    levels = tuple(image(s, s, channels=32, batch=2) for s in (12, 6, 3))
    return Call(head, lambda net, *levels: net(list(levels))), levels


def timm_network(name, size=64):
    import timm
    return Call(timm.create_model(name, pretrained=False, num_classes=10)), (image(size, size, batch=2),)


def bert_mlp():
    from transformers.models.bert import modeling_bert as bert
    config = bert.BertConfig(hidden_size=48, intermediate_size=96)
    parts = nn.ModuleList([bert.BertIntermediate(config), bert.BertOutput(config)])
    return Call(parts, lambda net, x: net[1](net[0](x), x)), (torch.randn(2, 9, 48),)


def llama_mlp():
    from transformers.models.llama import modeling_llama as llama
    config = llama.LlamaConfig(hidden_size=48, intermediate_size=96, num_attention_heads=4)
    parts = nn.ModuleList([llama.LlamaRMSNorm(48), llama.LlamaMLP(config)])
    return Call(parts, lambda net, x: x + net[1](net[0](x))), (torch.randn(2, 9, 48),)


def gpt_oss_mlp():
    """One expert of gpt-oss after the other: gate and up interleaved, a clamp, alpha and + 1."""
    from transformers.models.gpt_oss import modeling_gpt_oss as them
    config = them.GptOssConfig(hidden_size=32, intermediate_size=32, num_local_experts=2, num_experts_per_tok=2)
    experts = them.GptOssExperts(config)

    def each(net, x):
        result = 0
        for i in range(2):
            both = x @ net.gate_up_proj[i] + net.gate_up_proj_bias[i]
            result = result + net._apply_gate(both) @ net.down_proj[i] + net.down_proj_bias[i]
        return result

    return Call(experts, each), (torch.randn(14, 32),)


def phi3_mlp():
    """One linear layer for gate and up, cut in two by chunk()."""
    from transformers.models.phi3 import modeling_phi3 as phi
    return Call(phi.Phi3MLP(phi.Phi3Config(hidden_size=48, intermediate_size=96, pad_token_id=0))), (torch.randn(2, 9, 48),)


def resnet_block(up=False):
    from diffusers.models.resnet import ResnetBlock2D
    net = ResnetBlock2D(in_channels=32, out_channels=48, temb_channels=24, groups=8, groups_out=8)
    return Call(net), (image(9, 8, channels=32, batch=2), torch.randn(2, 24))


def feed_forward(name):
    from diffusers.models.attention import FeedForward
    return Call(FeedForward(32, activation_fn=name)), (torch.randn(2, 9, 32),)


def unet_2d():
    from diffusers import UNet2DModel
    net = UNet2DModel(sample_size=16, layers_per_block=1, block_out_channels=(32, 64), norm_num_groups=8, attention_head_dim=8,
                      down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    return Call(net, lambda net, x, t: net(x, t, return_dict=False)), (image(16, 16, batch=2), torch.tensor([61, 498]))


def unet_2d_condition():
    """The configuration of Stable Diffusion 1.5, a tenth as wide."""
    from diffusers import UNet2DConditionModel
    net = UNet2DConditionModel(sample_size=16, cross_attention_dim=24, attention_head_dim=4, block_out_channels=(32, 64, 128, 128))
    return (Call(net, lambda net, x, t, c: net(x, t, c, return_dict=False)),
            (image(16, 16, channels=4, batch=2), torch.tensor([61, 498]), torch.randn(2, 7, 24)))


def autoencoder(half):
    from diffusers import AutoencoderKL
    net = AutoencoderKL(block_out_channels=(32, 64), down_block_types=("DownEncoderBlock2D",) * 2, norm_num_groups=8,
                        up_block_types=("UpDecoderBlock2D",) * 2, layers_per_block=1, latent_channels=4)
    if half == "encoder":
        return Call(nn.Sequential(net.encoder, net.quant_conv)), (image(16, 16),)
    return Call(nn.Sequential(net.post_quant_conv, net.decoder)), (image(8, 8, channels=4),)


def nnunet(residual=False):
    from dynamic_network_architectures.architectures import unet
    make = unet.ResidualEncoderUNet if residual else unet.PlainConvUNet
    net = make(2, 4, (8, 16, 32, 32), nn.Conv2d, 3, (1, 2, 2, 2), 2, 3, (1 if residual else 2,) * 3, conv_bias=True, norm_op=nn.InstanceNorm2d,
               norm_op_kwargs={"eps": 1e-5, "affine": True}, nonlin=nn.LeakyReLU, nonlin_kwargs={"inplace": True}, deep_supervision=False)
    return Call(net), (image(32, 32, channels=2, batch=2),)


def segmentation_unet():
    import segmentation_models_pytorch as smp
    return Call(smp.Unet("resnet18", encoder_weights=None, classes=3)), (image(64, 64),)


MAKERS = {
    "deeplabv3_resnet50": lambda: segmentation("deeplabv3_resnet50"),
    "fcn_resnet50": lambda: segmentation("fcn_resnet50"),
    "lraspp_mobilenet_v3_large": lambda: segmentation("lraspp_mobilenet_v3_large"),
    "retinanet_head": lambda: detection_head("retinanet"),
    "fcos_head": lambda: detection_head("fcos"),
    "resnet50_gn": lambda: timm_network("resnet50_gn"),
    "convnext_atto": lambda: timm_network("convnext_atto"),
    "bert_mlp": bert_mlp, "llama_mlp": llama_mlp, "phi3_mlp": phi3_mlp, "gpt_oss_mlp": gpt_oss_mlp,
    "resnet_block": resnet_block,
    "feed_forward_geglu": lambda: feed_forward("geglu"), "feed_forward_swiglu": lambda: feed_forward("swiglu"),
    "unet_2d": unet_2d, "unet_2d_condition": unet_2d_condition,
    "autoencoder_kl_encoder": lambda: autoencoder("encoder"), "autoencoder_kl_decoder": lambda: autoencoder("decoder"),
    "nnunet_2d": nnunet, "nnunet_2d_residual": lambda: nnunet(True), "unet_resnet18": segmentation_unet,
}


def made(name):
    """(module, inputs), by the seed of its name alone."""
    torch.manual_seed(0)
    with _quiet():
        module, inputs = MAKERS[name]()
    return drawn(module), inputs
