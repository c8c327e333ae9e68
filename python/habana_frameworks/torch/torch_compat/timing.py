"""Dynamo's timer of phases; importing it imports Dynamo."""

from __future__ import annotations

from torch._dynamo.utils import dynamo_timed as dynamo_timed
