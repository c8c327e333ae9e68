#include "backend/torch/distributed/hccl_backend.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "backend/torch/device/allocator.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/device/pending_storage.h"
#include "backend/torch/distributed/hccl_call.h"
#include "backend/torch/distributed/recorded_collectives.h"
#include "backend/torch/programs/group_names.h"

namespace hpu::torch_backend {
namespace {

using c10d::OpType;

// How often works that have ended are let go where no call does it.
constexpr std::chrono::milliseconds kWatchTime{200};
constexpr std::chrono::milliseconds kAwaitTime{1};
constexpr size_t kLooksPerCall = 4;

using Works = std::list<c10::intrusive_ptr<HcclWork>>;

// The backends that live.
std::mutex backends_mutex;
std::vector<HcclBackend*>& Backends() {
  static auto* backends = new std::vector<HcclBackend*>;
  return *backends;
}

// Releases the interpreter while it lives, if this thread holds it.
class OptionalGilRelease {
 public:
  OptionalGilRelease() {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) released_.emplace();
  }

 private:
  std::optional<pybind11::gil_scoped_release> released_;
};

// Moves works that have ended out of the list. It looks at the `most` oldest ones: a call must not
// take longer because many are on their way.
Works TakeEnded(Works* works, size_t most) {
  Works ended;
  for (auto each = works->begin(); each != works->end() && most > 0; --most) {
    const auto next = std::next(each);
    if ((*each)->HasEnded()) ended.splice(ended.end(), *works, each);
    each = next;
  }
  return ended;
}

}  // namespace

HcclBackend::HcclBackend(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                         c10::intrusive_ptr<Options> options)
    : Backend(rank, size),
      store_(std::move(store)),
      options_(std::move(options)),
      peer_streams_(static_cast<size_t>(size)),
      process_(getpid()),
      watched_(std::make_unique<Watched>()) {
  init();
  if (!options_->group_name.empty()) NumberGroup(options_->group_name);
  watched_->thread = std::thread([this] { Watch(); });
  std::lock_guard lock(backends_mutex);
  Backends().push_back(this);
}

HcclBackend::~HcclBackend() {
  {
    std::lock_guard lock(backends_mutex);
    std::erase(Backends(), this);
  }
  LeaveToParent();
  AwaitWorks();
  StopWatching();
  for (const uint32_t id : taken_streams_) runtime::Device::Get().GiveBackStream(id);
}

// A forked child has neither the thread nor a usable lock, so what they are made of stays.
void HcclBackend::LeaveToParent() {
  if (getpid() != process_) (void)watched_.release();
}

void StopWatchingBackends() {
  std::lock_guard lock(backends_mutex);
  for (HcclBackend* backend : Backends()) {
    backend->LeaveToParent();
    backend->StopWatching();
  }
}

// The tensors of a work that still runs must not be freed, and its stream is not given back before.
void HcclBackend::AwaitWorks() {
  const OptionalGilRelease no_gil;
  while (watched_ != nullptr) {
    {
      std::lock_guard lock(watched_->mutex);
      Works ended = TakeEnded(&watched_->works, watched_->works.size());
      if (watched_->works.empty()) return;
      // Without the thread nothing ends works that take too long: the process is about to end, and
      // they stay.
      if (watched_->stop) {
        new Works(std::move(watched_->works));
        return;
      }
    }
    std::this_thread::sleep_for(kAwaitTime);
  }
}

void HcclBackend::StopWatching() {
  if (watched_ == nullptr) return;
  {
    std::lock_guard lock(watched_->mutex);
    if (watched_->stop) return;
    watched_->stop = true;
  }
  watched_->stopped.notify_one();
  const OptionalGilRelease no_gil;  // the thread may need the interpreter to let a tensor go
  watched_->thread.join();
}

void HcclBackend::Watch() {
  std::unique_lock lock(watched_->mutex);
  while (!watched_->stop) {
    watched_->stopped.wait_for(lock, kWatchTime);
    Works ended = TakeEnded(&watched_->works, watched_->works.size());
    const Works pending = watched_->works;
    // Tensors die, and other threads are woken, without the lock.
    lock.unlock();
    ended.clear();
    for (const auto& each : pending) {
      if (each->AbortIfOverdue()) break;
    }
    lock.lock();
  }
}

// Rank 0 makes the id, and its error reaches the others through the store, too.
hcclUniqueId HcclBackend::ShareId(const SynapseFunctions& api, const std::string& key) {
  hcclUniqueId id{};
  if (getRank() == 0) {
    const hcclResult_t made = api.hcclGetUniqueId(&id);
    std::vector<uint8_t> value(1 + sizeof(id), 1);
    std::memcpy(value.data() + 1, &id, sizeof(id));
    if (made != hcclSuccess) value.assign(1, 0);
    store_->set(key, value);
    CheckHccl(made, "hcclGetUniqueId");
    return id;
  }
  const auto since = std::chrono::steady_clock::now();
  try {
    store_->wait({key}, options_->timeout);
  } catch (const c10::Error& error) {
    // The errors of stores do not tell a timeout from a connection that is lost.
    const bool too_late = std::chrono::steady_clock::now() - since >= options_->timeout * 9 / 10;
    TORCH_CHECK_WITH(DistBackendError, !too_late, "rank ", getRank(),
                     ": rank 0 did not come to the first call of this process group within ",
                     options_->timeout.count(), " ms (", error.what_without_backtrace(), ")");
    TORCH_CHECK_WITH(DistBackendError, false, "rank ", getRank(),
                     ": the store in which rank 0 writes how to join this process group failed: ",
                     error.what_without_backtrace());
  }
  const std::vector<uint8_t> value = store_->get(key);
  TORCH_CHECK_WITH(DistBackendError, value.size() == 1 + sizeof(id) && value[0] == 1,
                   "rank 0 could not make a unique id for the communicator");
  std::memcpy(&id, value.data() + 1, sizeof(id));
  return id;
}

std::shared_ptr<HcclCommunicator> HcclBackend::Communicator() {
  std::lock_guard lock(mutex_);
  if (communicator_ != nullptr) return communicator_;
  runtime::Device& device = AcquiredDevice();
  const std::string key = "hccl_unique_id/" + std::to_string(generation_++);
  const hcclUniqueId id = ShareId(device.api(), key);
  hcclComm_t handle = nullptr;
  const SynapseFunctions& api = device.api();
  const hcclResult_t joined =
      api.synEmulatorCommInitRank != nullptr
          ? api.synEmulatorCommInitRank(&handle, getSize(), id, getRank(),
                                        static_cast<uint64_t>(options_->timeout.count()))
          : api.hcclCommInitRank(&handle, getSize(), id, getRank());
  // The next group of this name may use the same store and must not read this id.
  if (getRank() == 0) store_->deleteKey(key);
  CheckHccl(joined,
            "rank " + std::to_string(getRank()) + " at the first call of its process group");
  communicator_ = std::make_shared<HcclCommunicator>(handle);
  return communicator_;
}

runtime::Stream& HcclBackend::OwnStream() {
  runtime::Device& device = AcquiredDevice();
  const std::optional<uint32_t> id = device.TakeStream();
  if (!id.has_value()) {
    if (stream_ != nullptr) return *stream_;
    return *Check(device.GetStream(device.NextStreamId()));
  }
  taken_streams_.push_back(*id);
  return *Check(device.GetStream(*id));
}

runtime::Stream& HcclBackend::StreamTo(int peer, bool sends) {
  std::lock_guard lock(mutex_);
  runtime::Stream*& stream = peer_streams_[static_cast<size_t>(peer)][sends ? 0 : 1];
  if (stream == nullptr) stream = &OwnStream();
  return *stream;
}

c10::intrusive_ptr<HcclWork> HcclBackend::NewWork(
    const Call& call, const std::shared_ptr<HcclCommunicator>& communicator) {
  const bool unset = call.timeout == c10d::kUnsetTimeout || call.timeout == kNoTimeout;
  return c10::make_intrusive<HcclWork>(getRank(), call.type, call.name, call.inputs, call.outputs,
                                       unset ? options_->timeout : call.timeout, communicator);
}

void HcclBackend::Keep(const c10::intrusive_ptr<HcclWork>& work) {
  Works ended;  // dies after the lock
  std::lock_guard lock(watched_->mutex);
  ended = TakeEnded(&watched_->works, kLooksPerCall);
  watched_->works.push_back(work);
}

c10::intrusive_ptr<HcclWork> HcclBackend::Run(Call call, const Body& body) {
  RefuseInCapture(call.name);
  const runtime::QueueingCall queueing(CurrentStream());
  for (const at::Tensor& tensor : call.inputs) CheckForCollective(tensor, call.name, false);
  for (const at::Tensor& tensor : call.outputs) CheckForCollective(tensor, call.name, true);
  const std::vector<at::Tensor> outputs = call.outputs;
  std::vector<WrittenCopy> written = MakeRowMajor(call.name, &call.inputs, &call.outputs);
  if (!written.empty()) call.is_async = false;  // the current stream copies back
  const std::shared_ptr<HcclCommunicator> communicator = Communicator();
  const SynapseFunctions& api = AcquiredDevice().api();
  runtime::Stream* stream = &CurrentStream();
  {
    std::lock_guard lock(mutex_);
    ++sequence_;
    if (stream_ == nullptr) stream_ = &OwnStream();
    if (coalesced_.has_value()) {
      // The tensors may have been made since the first of the coalesced calls.
      runtime::Event ready;
      Check(ready.Record(*stream));
      Check(stream_->Wait(ready));
      body({api, communicator->handle(), stream_->handle()}, call.inputs, call.outputs);
      coalesced_->inputs.insert(coalesced_->inputs.end(), call.inputs.begin(), call.inputs.end());
      coalesced_->outputs.insert(coalesced_->outputs.end(), call.outputs.begin(),
                                 call.outputs.end());
      std::move(written.begin(), written.end(), std::back_inserter(coalesced_->written));
      // The work to wait for is that of endCoalescing.
      return NewWork(call, communicator);
    }
    if (call.is_async) {
      runtime::Stream* own = call.stream != nullptr ? call.stream : stream_;
      runtime::Event ready;
      Check(ready.Record(*stream));
      Check(own->Wait(ready));
      stream = own;
    }
  }
  body({api, communicator->handle(), stream->handle()}, call.inputs, call.outputs);
  CopyBack(written);
  call.outputs = outputs;
  // The current stream frees memory in its own order.
  if (!call.is_async) call.inputs.clear();
  const c10::intrusive_ptr<HcclWork> work = NewWork(call, communicator);
  work->Record(*stream);
  Keep(work);
  return work;
}

void HcclBackend::startCoalescing() {
  const std::shared_ptr<HcclCommunicator> communicator = Communicator();
  runtime::Stream& current = CurrentStream();
  std::lock_guard lock(mutex_);
  TORCH_CHECK(!coalesced_.has_value(), "this process group coalesces calls already");
  if (stream_ == nullptr) stream_ = &OwnStream();
  runtime::Event ready;
  Check(ready.Record(current));
  Check(stream_->Wait(ready));
  CheckHccl(AcquiredDevice().api().hcclGroupStart(), "hcclGroupStart");
  coalesced_.emplace();
}

c10::intrusive_ptr<c10d::Work> HcclBackend::endCoalescing() {
  const std::shared_ptr<HcclCommunicator> communicator = Communicator();
  c10::intrusive_ptr<HcclWork> work;
  {
    std::lock_guard lock(mutex_);
    TORCH_CHECK(coalesced_.has_value(), "this process group does not coalesce calls");
    const Coalesced calls = *std::exchange(coalesced_, std::nullopt);
    CheckHccl(AcquiredDevice().api().hcclGroupEnd(), "coalesced calls");
    work =
        NewWork({OpType::COALESCED, "coalesced calls", calls.inputs, calls.outputs}, communicator);
    runtime::Stream* last = stream_;
    if (!calls.written.empty()) {
      last = &CurrentStream();
      runtime::Event ended;
      Check(ended.Record(*stream_));
      Check(last->Wait(ended));
      CopyBack(calls.written);
    }
    work->Record(*last);
  }
  Keep(work);
  return work;
}

void HcclBackend::AbandonCoalescing() {
  std::lock_guard lock(mutex_);
  if (!coalesced_.has_value()) return;
  coalesced_.reset();
  AcquiredDevice().api().hcclGroupEnd();
}

void HcclBackend::eagerConnectSingleDevice(at::Device /*device*/) { Communicator(); }

c10::intrusive_ptr<c10d::Backend> HcclBackend::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const auto own = std::find(ranks.begin(), ranks.end(), getRank());
  if (own == ranks.end()) return nullptr;
  const auto rank = static_cast<int>(own - ranks.begin());
  auto own_options = c10::make_intrusive<Options>(options ? options->timeout : options_->timeout);
  if (options) {
    own_options->group_name = options->group_name;
    own_options->group_desc = options->group_desc;
    own_options->global_ranks_in_group = options->global_ranks_in_group;
  }
  // Groups of other ranks use the same store.
  std::string prefix = "hccl_split";
  for (const int each : ranks) prefix += "_" + std::to_string(each);
  auto group =
      c10::make_intrusive<HcclBackend>(c10::make_intrusive<c10d::PrefixStore>(prefix, store), rank,
                                       static_cast<int>(ranks.size()), own_options);
  return group;
}

uint64_t HcclBackend::getSequenceNumberForGroup() {
  std::lock_guard lock(mutex_);
  return sequence_;
}

c10d::ErrorType HcclBackend::getError() {
  std::lock_guard lock(mutex_);
  return communicator_ == nullptr || communicator_->Failure().empty() ? c10d::ErrorType::SUCCESS
                                                                      : c10d::ErrorType::COMM_ERROR;
}

void HcclBackend::TakeFailures() {
  std::vector<runtime::Stream*> streams{&CurrentStream()};
  {
    std::lock_guard lock(mutex_);
    if (communicator_ == nullptr || communicator_->Failure().empty()) return;
    streams.push_back(stream_);
    for (const auto& pair : peer_streams_) streams.insert(streams.end(), pair.begin(), pair.end());
  }
  for (runtime::Stream* stream : streams) {
    if (stream != nullptr) (void)stream->Synchronize();
  }
}

void HcclBackend::abort() {
  {
    std::lock_guard lock(mutex_);
    if (communicator_ == nullptr) return;
    communicator_->Abort("the process group was aborted");
  }
  TakeFailures();
}

void HcclBackend::shutdown() {
  LeaveToParent();
  if (watched_ == nullptr) return;
  QueueBeforeShutdown();
  AwaitWorks();
  TakeFailures();
  std::lock_guard lock(mutex_);
  communicator_.reset();
}

}  // namespace hpu::torch_backend
