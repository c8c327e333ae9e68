#include "emulator/collectives/fabric.h"

#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace hpu::emulator {
namespace {

constexpr size_t kMessages = 8;  // of a link in each direction
constexpr uint32_t kApi = FI_VERSION(1, 17);
constexpr size_t kMostAddressBytes = 256;

struct MessageBuffer {
  MessageHeader header;
  alignas(64) uint8_t data[kSlotBytes];
};

// A message on its way. libfabric keeps its own notes in the first member until it is done.
struct FabricMessage {
  fi_context context{};
  int peer = 0;
  MessageBuffer buffer;
  bool done = true;
};
static_assert(offsetof(FabricMessage, context) == 0);

// The functions that libfabric exports; all others are called through its objects.
struct FabricLibrary {
  decltype(&fi_getinfo) getinfo = nullptr;
  decltype(&fi_freeinfo) freeinfo = nullptr;
  decltype(&fi_dupinfo) dupinfo = nullptr;
  decltype(&fi_fabric) fabric = nullptr;
  decltype(&fi_strerror) strerror = nullptr;
};

// libfabric would ask the receiver for room before each message of more than 16 KiB, which takes a
// turn of both hosts: an all-reduce of 1 MiB took 9 times as long. It reads these variables when it
// is loaded, and has no other way to set the limit; those of the user stay.
void RaiseEagerLimit() {
  const std::string bytes = std::to_string(sizeof(MessageBuffer) + 1024);  // and its own headers
  setenv("FI_OFI_RXM_BUFFER_SIZE", bytes.c_str(), /*overwrite=*/0);
  setenv("FI_OFI_RXM_EAGER_LIMIT", bytes.c_str(), /*overwrite=*/0);
}

absl::StatusOr<const FabricLibrary*> LoadFabric() {
  static const absl::StatusOr<const FabricLibrary*> loaded =
      []() -> absl::StatusOr<const FabricLibrary*> {
    RaiseEagerLimit();
    void* handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      return Unimplemented("ranks on different hosts need libfabric (apt install libfabric1): ",
                           dlerror());
    }
    static FabricLibrary library;
    const auto find = [&](const char* name, auto* function) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(handle, name));
      return *function != nullptr;
    };
    if (!find("fi_getinfo", &library.getinfo) || !find("fi_freeinfo", &library.freeinfo) ||
        !find("fi_dupinfo", &library.dupinfo) || !find("fi_fabric", &library.fabric) ||
        !find("fi_strerror", &library.strerror)) {
      return Unimplemented("libfabric.so.1 lacks functions: ", dlerror());
    }
    return &library;
  }();
  return loaded;
}

// Closes libfabric's objects in the reverse order of their making.
template <typename Object>
struct Closer {
  void operator()(Object* object) const { fi_close(&object->fid); }
};
template <typename Object>
using Owned = std::unique_ptr<Object, Closer<Object>>;

class TaggedEndpoint;

// The endpoint is closed before its links go, so that libfabric touches no message afterwards.
class FabricLink : public Link {
 public:
  FabricLink(TaggedEndpoint* endpoint, int peer, fi_addr_t address);

  bool TryReserve(Slot* slot) override;
  void Send() override;
  bool TryPeek(Slot* slot) override;
  void Release() override;
  bool AllSent() override;

 private:
  void Post(FabricMessage* message);

  TaggedEndpoint* const endpoint_;
  const int peer_;
  const fi_addr_t address_;
  std::vector<FabricMessage> out_;
  std::vector<FabricMessage> in_;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
};

class TaggedEndpoint : public FabricEndpoint {
 public:
  TaggedEndpoint(const FabricLibrary& library, int rank) : library_(library), rank_(rank) {}

  absl::Status Start(const FabricOptions& options) {
    fi_info* hints = library_.dupinfo(nullptr);
    if (hints == nullptr) return Error(absl::StatusCode::kResourceExhausted, "libfabric: memory");
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_TAGGED;
    hints->mode = FI_CONTEXT;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->mr_mode = 0;
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->rx_attr->msg_order = FI_ORDER_SAS;
    if (!options.any_provider) hints->fabric_attr->prov_name = strdup("tcp;ofi_rxm");
    if (options.interface.length != 0) {
      hints->addr_format =
          options.interface.storage.ss_family == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
      hints->src_addrlen = options.interface.length;
      hints->src_addr = malloc(options.interface.length);
      std::memcpy(hints->src_addr, &options.interface.storage, options.interface.length);
    }
    const int found = library_.getinfo(kApi, nullptr, nullptr, 0, hints, &info_);
    library_.freeinfo(hints);
    if (found != 0) {
      return Unimplemented("libfabric has no provider ",
                           options.any_provider ? "for tagged messages" : "tcp;ofi_rxm", " on ",
                           ToText(options.interface), ": ", library_.strerror(-found));
    }
    fid_fabric* fabric = nullptr;
    RETURN_IF_ERROR(Made(library_.fabric(info_->fabric_attr, &fabric, nullptr), "fi_fabric"));
    fabric_.reset(fabric);
    fid_domain* domain = nullptr;
    RETURN_IF_ERROR(Made(fi_domain(fabric, info_, &domain, nullptr), "fi_domain"));
    domain_.reset(domain);
    fi_av_attr table{};
    table.type = FI_AV_TABLE;
    fid_av* addresses = nullptr;
    RETURN_IF_ERROR(Made(fi_av_open(domain, &table, &addresses, nullptr), "fi_av_open"));
    addresses_.reset(addresses);
    fi_cq_attr queue{};
    queue.format = FI_CQ_FORMAT_CONTEXT;
    queue.wait_obj = FI_WAIT_NONE;
    fid_cq* completions = nullptr;
    RETURN_IF_ERROR(Made(fi_cq_open(domain, &queue, &completions, nullptr), "fi_cq_open"));
    completions_.reset(completions);
    fid_ep* endpoint = nullptr;
    RETURN_IF_ERROR(Made(fi_endpoint(domain, info_, &endpoint, nullptr), "fi_endpoint"));
    endpoint_.reset(endpoint);
    RETURN_IF_ERROR(Made(fi_ep_bind(endpoint, &addresses->fid, 0), "fi_ep_bind"));
    RETURN_IF_ERROR(
        Made(fi_ep_bind(endpoint, &completions->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind"));
    RETURN_IF_ERROR(Made(fi_enable(endpoint), "fi_enable"));
    char name[kMostAddressBytes];
    size_t length = sizeof(name);
    RETURN_IF_ERROR(Made(fi_getname(&endpoint->fid, name, &length), "fi_getname"));
    address_.assign(name, length);
    return absl::OkStatus();
  }

  ~TaggedEndpoint() override {
    endpoint_.reset();
    completions_.reset();
    addresses_.reset();
    domain_.reset();
    fabric_.reset();
    if (info_ != nullptr) library_.freeinfo(info_);
  }

  std::string address() const override { return address_; }

  absl::StatusOr<std::unique_ptr<Link>> Connect(int peer, const std::string& address) override {
    if (address.size() != address_.size()) {
      return Unimplemented("rank ", peer,
                           " has an address of another kind: its libfabric has "
                           "another provider");
    }
    fi_addr_t place = FI_ADDR_UNSPEC;
    if (fi_av_insert(addresses_.get(), address.data(), 1, &place, 0, nullptr) != 1) {
      return Internal("libfabric takes no address of rank ", peer);
    }
    return std::make_unique<FabricLink>(this, peer, place);
  }

  void Progress() override {
    std::lock_guard lock(mutex_);
    ProgressLocked();
  }

  std::string Failure() override {
    std::lock_guard lock(mutex_);
    return failure_;
  }

  // Starts a message; `start` is a call of libfabric. While the library has no room, the message
  // waits and is started by Progress, in the order of these calls.
  void Begin(FabricMessage* message, std::function<ssize_t(fid_ep*)> start) {
    std::lock_guard lock(mutex_);
    message->done = false;
    waiting_.push_back({message, std::move(start)});
    StartWaiting();
  }
  bool IsDone(const FabricMessage& message) {
    std::lock_guard lock(mutex_);
    if (!message.done) ProgressLocked();
    return message.done;
  }

  int rank() const { return rank_; }

 private:
  absl::Status Made(int result, const char* call) const {
    if (result == 0) return absl::OkStatus();
    return Internal("libfabric: ", call, ": ", library_.strerror(-result));
  }

  void Fail(const FabricMessage& message, int error) {
    if (!failure_.empty()) return;
    failure_ = "the network connection to rank " + std::to_string(message.peer) +
               " failed: " + library_.strerror(error);
  }

  void StartWaiting() {
    while (!waiting_.empty()) {
      const ssize_t result = waiting_.front().start(endpoint_.get());
      if (result == -FI_EAGAIN) return;
      if (result != 0) Fail(*waiting_.front().message, static_cast<int>(-result));
      waiting_.pop_front();
    }
  }

  void ProgressLocked() {
    std::array<fi_cq_entry, 16> entries;
    for (;;) {
      const ssize_t count = fi_cq_read(completions_.get(), entries.data(), entries.size());
      if (count == -FI_EAVAIL) {
        fi_cq_err_entry error{};
        if (fi_cq_readerr(completions_.get(), &error, 0) < 1) break;
        Fail(*static_cast<FabricMessage*>(error.op_context), error.err);
        continue;
      }
      if (count <= 0) break;
      for (ssize_t i = 0; i < count; ++i) {
        static_cast<FabricMessage*>(entries[static_cast<size_t>(i)].op_context)->done = true;
      }
    }
    StartWaiting();
  }

  struct Waiting {
    FabricMessage* message = nullptr;
    std::function<ssize_t(fid_ep*)> start;
  };

  const FabricLibrary& library_;
  const int rank_;
  fi_info* info_ = nullptr;
  Owned<fid_fabric> fabric_;
  Owned<fid_domain> domain_;
  Owned<fid_av> addresses_;
  Owned<fid_cq> completions_;
  Owned<fid_ep> endpoint_;
  std::string address_;
  std::mutex mutex_;  // guards the messages of all links, and the members below
  std::deque<Waiting> waiting_;
  std::string failure_;  // the first one
};

FabricLink::FabricLink(TaggedEndpoint* endpoint, int peer, fi_addr_t address)
    : endpoint_(endpoint), peer_(peer), address_(address), out_(kMessages), in_(kMessages) {
  for (FabricMessage& message : out_) message.peer = peer;
  for (FabricMessage& message : in_) {
    message.peer = peer;
    Post(&message);
  }
}

// A receive takes the messages of one sender, which is their tag.
void FabricLink::Post(FabricMessage* message) {
  endpoint_->Begin(message, [this, message](fid_ep* endpoint) {
    return fi_trecv(endpoint, &message->buffer, sizeof(MessageBuffer), nullptr, FI_ADDR_UNSPEC,
                    static_cast<uint64_t>(peer_), 0, &message->context);
  });
}

bool FabricLink::TryReserve(Slot* slot) {
  FabricMessage& message = out_[sent_ % kMessages];
  if (!endpoint_->IsDone(message)) return false;
  *slot = {&message.buffer.header, message.buffer.data};
  return true;
}

void FabricLink::Send() {
  FabricMessage& message = out_[sent_++ % kMessages];
  const size_t bytes = offsetof(MessageBuffer, data) + message.buffer.header.bytes;
  endpoint_->Begin(&message, [this, &message, bytes](fid_ep* endpoint) {
    return fi_tsend(endpoint, &message.buffer, bytes, nullptr, address_,
                    static_cast<uint64_t>(endpoint_->rank()), &message.context);
  });
}

bool FabricLink::TryPeek(Slot* slot) {
  FabricMessage& message = in_[received_ % kMessages];
  if (!endpoint_->IsDone(message)) return false;
  *slot = {&message.buffer.header, message.buffer.data};
  return true;
}

void FabricLink::Release() { Post(&in_[received_++ % kMessages]); }

bool FabricLink::AllSent() {
  for (const FabricMessage& message : out_) {
    if (!endpoint_->IsDone(message)) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FabricEndpoint>> FabricEndpoint::Open(int rank,
                                                                     const FabricOptions& options) {
  ASSIGN_OR_RETURN(const FabricLibrary* const library, LoadFabric());
  auto endpoint = std::make_unique<TaggedEndpoint>(*library, rank);
  RETURN_IF_ERROR(endpoint->Start(options));
  return endpoint;
}

}  // namespace hpu::emulator
