// The parameters of the kernels soft_clip_fwd_f32 and soft_clip_bwd_f32: the operator fills them,
// and the kernels read them.
#pragma once

typedef struct SoftClipParams {
  float limit;  // above 0
} SoftClipParams;
