"""torchvision: classification, segmentation, the heads of detectors over a pyramid, optical flow, video."""
from .entry import Entry


def classifier(name, size):
    import torchvision
    from .wrap import Flat, image
    options = {"aux_logits": False, "init_weights": False} if name in ("googlenet", "inception_v3") else {}
    return Flat(getattr(torchvision.models, name)(weights=None, **options)), image(size)


def segmentation(name, size):
    import torchvision
    from .wrap import Flat, image
    net = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, num_classes=21)
    return Flat(net, lambda net, x: net(x)["out"]), image(size)


def detector(name, size):
    """Backbone, pyramid and the head with GroupNorm: scores and boxes of every anchor, before they are selected."""
    import functools
    import torch
    from torchvision.models.detection import backbone_utils, fcos, retinanet
    from .wrap import Flat, image
    pyramid = backbone_utils.resnet_fpn_backbone(backbone_name="resnet18", weights=None, trainable_layers=5,
                                                 norm_layer=torch.nn.BatchNorm2d, returned_layers=[2, 3, 4])
    norm = functools.partial(torch.nn.GroupNorm, 32)
    head = {"retinanet": lambda: retinanet.RetinaNetHead(256, 9, 20, norm_layer=norm),
            "fcos": lambda: fcos.FCOSHead(256, 1, 20)}[name]()
    parts = torch.nn.ModuleDict({"pyramid": pyramid, "head": head})
    return Flat(parts, lambda net, x: net["head"](list(net["pyramid"](x).values()))), image(size)


def flow(name, size):
    import torch
    import torchvision
    from .wrap import Flat
    net = getattr(torchvision.models.optical_flow, name)(weights=None)
    return (Flat(net, lambda net, a, b: net(a, b, num_flow_updates=3)[-1]),
            {"first": torch.rand(1, 3, size, size) * 2 - 1, "second": torch.rand(1, 3, size, size) * 2 - 1})


def video(name, frames, size):
    import torch
    import torchvision
    from .wrap import Flat
    return (Flat(getattr(torchvision.models.video, name)(weights=None)),
            {"clip": torch.randn(1, 3, frames, size, size)})


def regions(name, size):
    """The first half of Faster R-CNN: backbone, pyramid, and the network that proposes regions."""
    import torch
    from torchvision.models.detection import backbone_utils, rpn
    from .wrap import Flat, image
    if name == "mobilenet":
        pyramid = backbone_utils.mobilenet_backbone(backbone_name="mobilenet_v3_large", weights=None, fpn=True,
                                                    norm_layer=torch.nn.BatchNorm2d, trainable_layers=6)
    else:
        pyramid = backbone_utils.resnet_fpn_backbone(backbone_name=name, weights=None, trainable_layers=5,
                                                     norm_layer=torch.nn.BatchNorm2d)
    parts = torch.nn.ModuleDict({"pyramid": pyramid, "head": rpn.RPNHead(256, 3)})
    return Flat(parts, lambda net, x: net["head"](list(net["pyramid"](x).values()))), image(size)


def single_shot(name, size):
    """SSD: scores and boxes of every anchor, before they are selected."""
    import torchvision
    from .wrap import Flat, image
    net = getattr(torchvision.models.detection, name)(weights=None, weights_backbone=None, num_classes=5)

    def call(net, x):
        found = net.head(list(net.backbone(x).values()))
        return [found["bbox_regression"], found["cls_logits"]]
    return Flat(net, call), image(size)


OPEN = {"resnet50": "n", "mobilenet_v3_small": "nhw", "deeplabv3_mobilenet_v3_large": "nhw", "fcn_resnet50": "nhw"}
CLASSIFIERS = {
    "resnet18": 224, "resnet50": 224, "resnext50_32x4d": 224, "wide_resnet50_2": 160, "alexnet": 224, "vgg11_bn": 224,
    "densenet121": 224,
    "efficientnet_b0": 224, "efficientnet_v2_s": 224, "mobilenet_v2": 224, "mobilenet_v3_small": 224,
    "mobilenet_v3_large": 224, "shufflenet_v2_x1_0": 224, "regnet_x_400mf": 224, "regnet_y_400mf": 224,
    "squeezenet1_1": 224, "googlenet": 224, "inception_v3": 299, "mnasnet1_0": 224, "convnext_tiny": 224}
TRANSFORMERS = {"vit_b_32": 224, "swin_t": 224, "swin_v2_t": 256, "maxvit_t": 224}
SEGMENTATION = {"deeplabv3_resnet50": 256, "deeplabv3_mobilenet_v3_large": 256, "fcn_resnet50": 256,
                "lraspp_mobilenet_v3_large": 256}

ENTRIES = (
    [Entry("torchvision", name, classifier, (name, size), open=OPEN.get(name, ""))
     for name, size in CLASSIFIERS.items()]
    + [Entry("torchvision", name, classifier, (name, size), convolutional=False)
       for name, size in TRANSFORMERS.items()]
    + [Entry("torchvision", name, segmentation, (name, size), open=OPEN.get(name, ""))
       for name, size in SEGMENTATION.items()]
    + [Entry("torchvision", f"{name}_heads", detector, (name, 256)) for name in ("retinanet", "fcos")]
    + [Entry("torchvision", "raft_small", flow, ("raft_small", 128)),
       Entry("torchvision", "r3d_18", video, ("r3d_18", 8, 64))]
    + [Entry("torchvision", name, video, (name, 8, 64), gpu_batch=2) for name in ("mc3_18", "r2plus1d_18")]
    + [Entry("torchvision", "s3d", video, ("s3d", 16, 224), gpu_batch=1),
       Entry("torchvision", "swin3d_t", video, ("swin3d_t", 8, 64), convolutional=False, gpu_batch=1),
       Entry("torchvision", "raft_large", flow, ("raft_large", 128), gpu_batch=1)]
    + [Entry("torchvision", name, video, (name, 16, 224), convolutional=False, gpu_batch=1)
       for name in ("mvit_v1_b", "mvit_v2_s")]
    + [Entry("torchvision", f"faster_rcnn_{name}_regions", regions, (name, 256), gpu_batch=2)
       for name in ("resnet50", "mobilenet")]
    + [Entry("torchvision", name, single_shot, (name, size), gpu_batch=2)
       for name, size in (("ssd300_vgg16", 300), ("ssdlite320_mobilenet_v3_large", 320))])
