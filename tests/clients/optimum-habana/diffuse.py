"""A small Stable Diffusion of random weights makes two images on hpu and on the CPU.

diffuse.py fails unless the images are the same up to rounding.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import small_models
import torch
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from optimum.habana import GaudiConfig
from optimum.habana.diffusers import GaudiDDIMScheduler, GaudiStableDiffusionPipeline
from transformers import CLIPTextConfig, CLIPTextModel

_SCHEDULE = {
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "clip_sample": False,
    "set_alpha_to_one": False,
}


def _parts() -> dict[str, Any]:
    torch.manual_seed(0)
    unet = UNet2DConditionModel(
        block_out_channels=(8, 16),
        layers_per_block=1,
        sample_size=16,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=4,
        norm_num_groups=4,
    )
    vae = AutoencoderKL(
        block_out_channels=[8, 16],
        down_block_types=["DownEncoderBlock2D", "DownEncoderBlock2D"],
        up_block_types=["UpDecoderBlock2D", "UpDecoderBlock2D"],
        latent_channels=4,
        norm_num_groups=4,
    )
    words = small_models.tokenizer()
    text = CLIPTextConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=words.model_max_length,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
    return {
        "unet": unet.eval(),
        "vae": vae.eval(),
        "text_encoder": CLIPTextModel(text).eval(),
        "tokenizer": words,
        "safety_checker": None,
        "feature_extractor": None,
        "image_encoder": None,
        "requires_safety_checker": False,
    }


def main() -> None:
    call = {
        "prompt": ["w1 w2 w3", "w9 w8"],
        "latents": torch.randn(2, 4, 16, 16, generator=torch.Generator().manual_seed(3)),
        "num_inference_steps": 4,
        "output_type": "np",
    }
    with tempfile.TemporaryDirectory() as folder:
        stored = StableDiffusionPipeline(**_parts(), scheduler=DDIMScheduler(**_SCHEDULE))
        stored.save_pretrained(Path(folder))
        expected = stored(**call).images
        pipeline = GaudiStableDiffusionPipeline.from_pretrained(
            folder,
            scheduler=GaudiDDIMScheduler(**_SCHEDULE),
            safety_checker=None,
            use_habana=True,
            use_hpu_graphs=os.environ.get("PT_HPU_LAZY_MODE") == "1",
            gaudi_config=GaudiConfig(use_torch_autocast=False),
        )
        images = pipeline(**call, batch_size=1).images
    difference = max(abs(a - b).max() for a, b in zip(expected, images, strict=True))
    print(f"the images differ by at most {difference:.2e} of a range of 1")
    if not difference < 1e-3:
        raise SystemExit("the images of hpu are not those of the CPU")


if __name__ == "__main__":
    main()
