"""Media pipelines: graphs of operators that read, decode, crop, flip and normalise batches, by the
threads of habana_dataloader (docs/media_pipeline.md).

    from habana_frameworks.mediapipe import fn
    from habana_frameworks.mediapipe.mediapipe import MediaPipe
"""
