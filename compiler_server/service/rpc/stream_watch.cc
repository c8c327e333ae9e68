#include "compiler_server/service/rpc/stream_watch.h"

namespace hpu::server {

StreamWatch::Stream::Stream(StreamWatch* watch, grpc::ServerContext* context)
    : watch_(watch), context_(context), last_(Clock::now()) {
  std::lock_guard<std::mutex> lock(watch_->mutex_);
  watch_->streams_.insert(this);
}

StreamWatch::Stream::~Stream() {
  std::lock_guard<std::mutex> lock(watch_->mutex_);
  watch_->streams_.erase(this);
}

void StreamWatch::Stream::Progressed() {
  std::lock_guard<std::mutex> lock(watch_->mutex_);
  last_ = Clock::now();
}

size_t StreamWatch::CancelStalled(std::chrono::milliseconds limit) {
  std::lock_guard<std::mutex> lock(mutex_);
  size_t cancelled = 0;
  for (Stream* stream : streams_) {
    if (Clock::now() - stream->last_ < limit || stream->context_->IsCancelled()) continue;
    stream->context_->TryCancel();
    ++cancelled;
  }
  return cancelled;
}

}  // namespace hpu::server
