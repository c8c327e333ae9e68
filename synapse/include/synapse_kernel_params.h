// Parameter structs of vector-kernel nodes (synNodeCreate `params`), flat C layouts with the sizes
// and offsets of the vendor's structs; a node accepts every version listed here by its size. Modes
// are plain int32_t fields so that foreign bytes cannot form an invalid enum; the enums name their
// values. uint8_t fields are booleans (0 or 1) unless said otherwise. Axes and dims are FCD-first
// except where a comment says PyTorch order.
#pragma once

#include "kernel_params/activation.h"
#include "kernel_params/attention.h"
#include "kernel_params/elementwise.h"
#include "kernel_params/indexing.h"
#include "kernel_params/loss.h"
#include "kernel_params/modes.h"
#include "kernel_params/movement.h"
#include "kernel_params/normalization.h"
#include "kernel_params/optimizer.h"
#include "kernel_params/pooling.h"
#include "kernel_params/random.h"
#include "kernel_params/reduction.h"
