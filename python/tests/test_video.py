"""Video decoders of diffusers as networks of chunks, compared with `vae.decode` in float64."""

import copy
import pathlib

import limited
import numpy as np
import pytest

torch = pytest.importorskip("torch")
diffusers = pytest.importorskip("diffusers")
pytest.importorskip("onnx")

import unisono as u  # noqa: E402
from unisono.pytorch import video_decoder  # noqa: E402

COMMAND = pathlib.Path(u.__file__).parent.parent.parent / "tools" / "unisono" / "unisono"
SMALL = {"base_dim": 8, "z_dim": 4, "dim_mult": [1, 2], "num_res_blocks": 1, "latents_mean": [0.0] * 4,
         "latents_std": [1.0] * 4, "temperal_downsample": [True]}


def wan(**more):
    return diffusers.AutoencoderKLWan(**{**SMALL, "scale_factor_spatial": 2, **more})


def wan_22():
    return wan(is_residual=True, dim_mult=[1, 1], patch_size=2, out_channels=12, in_channels=12, scale_factor_spatial=4)


def wan_twice():
    """Whose frames are doubled twice."""
    return wan(dim_mult=[1, 2, 2], temperal_downsample=[True, True], scale_factor_spatial=4)


def qwen_image():
    vae = diffusers.AutoencoderKLQwenImage(**SMALL)
    vae.spatial_compression_ratio = 2
    return vae


def cogvideox(**more):
    return diffusers.AutoencoderKLCogVideoX(block_out_channels=(8, 16), latent_channels=4, layers_per_block=1,
                                            up_block_types=("CogVideoXUpBlock3D",) * 2, norm_num_groups=2,
                                            down_block_types=("CogVideoXDownBlock3D",) * 2,
                                            temporal_compression_ratio=2, **more)


def temporal():
    return diffusers.AutoencoderKLTemporalDecoder(block_out_channels=(32,), layers_per_block=1, latent_channels=4)


def ready(vae):
    """With weights of which none is as it begins, 0 or 1."""
    with torch.no_grad():
        for p in vae.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return vae.eval().requires_grad_(False)


def compare(vae, decoder, z, **more):
    right = copy.deepcopy(vae).double().decode(z.double(), **more)
    eager, mine = vae.decode(z, **more), decoder(z, **more)
    assert type(mine) is type(eager) and mine.sample.shape == eager.sample.shape and mine.sample.dtype == z.dtype
    error, usual = ((t.sample.double() - right.sample).norm() / right.sample.norm() for t in (mine, eager))
    assert error <= 4 * usual + 1e-6
    return mine.sample


def drawn(frames, batch=1):
    """Latents of an odd size."""
    height, width = (int(e) for e in torch.randint(3, 8, (2,)))
    return torch.randn(batch, 4, frames, height, width)


@pytest.mark.parametrize("make, frames, batch", [(wan, 1, 1)] + [
    pytest.param(*case, marks=pytest.mark.check)
    for case in ((qwen_image, 3, 1), (wan, 3, 2), (wan_22, 3, 1), (cogvideox, 5, 2), (wan_twice, 4, 1), (cogvideox, 1, 1),
                 (cogvideox, 6, 1), (qwen_image, 1, 2))])
def test_videos_of_any_number_of_frames(make, frames, batch):
    vae = ready(make())
    compare(vae, video_decoder(vae), drawn(frames, batch))


@pytest.mark.parametrize("frames, batch", [(3, 2), pytest.param(1, 1, marks=pytest.mark.check)])
def test_frames_of_stable_video_diffusion(frames, batch):
    vae = ready(temporal())
    compare(vae, video_decoder(vae), drawn(frames, batch).transpose(1, 2).flatten(0, 1), num_frames=frames)


@pytest.mark.check
@pytest.mark.parametrize("make, frames, tiles", [
    (wan, 1, {"tile_sample_min_height": 12, "tile_sample_min_width": 8, "tile_sample_stride_height": 8,
           "tile_sample_stride_width": 6}),
    (wan_22, 2, {"tile_sample_min_height": 24, "tile_sample_min_width": 16, "tile_sample_stride_height": 16,
              "tile_sample_stride_width": 12}),
    (cogvideox, 4, {"tile_sample_min_height": 12, "tile_sample_min_width": 8})])
def test_tiles_and_slices_are_the_vae_s(make, frames, tiles):
    """Switched on after the decoder was made. Tiles do not divide the latents."""
    vae = ready(make())
    decoder = video_decoder(vae)
    vae.enable_tiling(**tiles), vae.enable_slicing()
    compare(vae, decoder, torch.randn(2, 4, frames, 7, 5))
    assert len(decoder.networks.made) > 1


@pytest.mark.check
def test_it_stands_for_the_method():
    vae = ready(wan())
    z = drawn(2)
    eager = vae.decode(z, return_dict=False)
    vae.decode = video_decoder(vae)
    (mine,) = vae.decode(z, return_dict=False)
    assert torch.allclose(mine, eager[0], atol=1e-4) and "conv3d" in vae.decode.report()
    assert torch.equal(vae.decode(z).sample, mine)  # what a decoded video leaves is not read by the next


@pytest.mark.check
def test_weights_that_change_are_read_again():
    vae = ready(wan())
    decoder, z = video_decoder(vae), drawn(1)
    before = decoder(z).sample
    vae.decoder.conv_out.weight.mul_(0.5)
    assert not torch.allclose(compare(vae, decoder, z), before)


@pytest.mark.skipif(not COMMAND.exists(), reason="the build folder has no command")
@pytest.mark.check
@pytest.mark.parametrize("make, frames", [(wan, 3), (cogvideox, 5)])
def test_chunks_by_the_command(make, frames, tmp_path):
    """Runs the command once per chunk; each run reads the caches that the previous one wrote."""
    vae = ready(make())
    z = drawn(frames)
    paths = video_decoder(vae).export(tmp_path, z)
    start, size = (1, 1) if make is wan else (3, 2)
    assert [p.name for p in paths] == ["first.onnx", "following.onnx"]
    made, caches = [], []
    for begin in (0, *range(start, frames, size)):
        np.save(tmp_path / "z.npy", z[:, :, begin:begin + (size if begin else start)].numpy())
        given = [f"--input={n}={tmp_path / n}.npy" for n in ("z", *caches)]
        done = limited.run([str(COMMAND), "run", str(paths[begin > 0]), *given, "--out", str(tmp_path / "out.npz")],
                           {"UNISONO_CACHE_DIR": str(tmp_path), "PATH": ""})
        assert done.returncode == 0, done.stderr
        out = np.load(tmp_path / "out.npz")
        made.append(torch.from_numpy(out["sample"]))
        caches = [n.removeprefix("new_") for n in out if n != "sample"]
        for n in caches:
            np.save(tmp_path / f"{n}.npy", out[f"new_{n}"])
    right = copy.deepcopy(vae).double().decode(z.double()).sample
    mine = torch.cat(made, 2)
    mine = mine.clamp(-1, 1) if make is wan else mine
    assert (mine - right).norm() <= 1e-5 * right.norm()


def test_errors(tmp_path):
    with pytest.raises(u.UserError, match="the vae is a Linear; expected one of diffusers' AutoencoderKLWan, "):
        video_decoder(torch.nn.Linear(2, 2))
    with pytest.raises(u.UserError, match="the vae is a AutoencoderTiny; expected one of"):
        video_decoder(diffusers.AutoencoderTiny(decoder_block_out_channels=(8,), encoder_block_out_channels=(8,),
                                                num_encoder_blocks=(1,), num_decoder_blocks=(1,)))
    vae, z = ready(wan()), drawn(1)
    decoder = video_decoder(vae)
    with pytest.raises(u.UserError, match="training mode; call vae.eval"):
        video_decoder(wan().train())(z)
    with pytest.raises(u.UserError, match="gradients would be recorded; call it under torch.no_grad"):
        video_decoder(wan().eval())(z)
    with pytest.raises(u.UserError, match="latents are torch.float64 on cpu, the decoder's weights are torch.float32"):
        decoder(z.double())
    with pytest.raises(u.UserError, match="the vae is torch.float64 on cpu; expected torch.bfloat16 or torch.float16 or torch.float32"):
        video_decoder(ready(wan()).double())(z.double())
    with pytest.raises(u.UserError, match="num_frames is for AutoencoderKLTemporalDecoder"):
        decoder.export(tmp_path, z, num_frames=1)
