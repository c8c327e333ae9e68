"""Dynamo's interpreter of bytecode; importing it imports Dynamo."""

from __future__ import annotations

from torch._dynamo.symbolic_convert import InstructionTranslator as InstructionTranslator
