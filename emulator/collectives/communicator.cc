#include "emulator/collectives/communicator.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <utility>

#include "emulator/base/spin.h"

namespace hpu::emulator {
namespace {

constexpr std::chrono::microseconds kNetworkSpin{20};

// Ranks with equal values can try to open each other's memory files. Network namespaces count as
// hosts of their own, as they do for everything else that meets over the network.
std::string HostName() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  struct stat network{};
  if (stat("/proc/self/ns/net", &network) == 0) boot += " " + std::to_string(network.st_ino);
  return boot;
}

std::string Pack(const SharedMemoryAddress& address) {
  return std::string(reinterpret_cast<const char*>(&address), sizeof(address)) + HostName();
}

}  // namespace

Communicator::Communicator(int size, int rank, uint64_t silence_seconds)
    : size_(size),
      rank_(rank),
      silence_seconds_(silence_seconds),
      links_(static_cast<size_t>(size)),
      last_{std::vector<uint64_t>(links_.size(), 0), std::vector<uint64_t>(links_.size(), 0)},
      running_{std::vector<uint64_t>(links_.size(), 1), std::vector<uint64_t>(links_.size(), 1)},
      gone_(links_.size()) {}

Communicator::~Communicator() { membership_.reset(); }

absl::StatusOr<std::shared_ptr<Communicator>> Communicator::Create(
    const hcclUniqueId& id, int num_ranks, int rank, const CommunicatorOptions& options) {
  std::shared_ptr<Communicator> made(new Communicator(num_ranks, rank, options.silence_seconds));
  ASSIGN_OR_RETURN(made->memory_, SharedMemory::Create(num_ranks));
  if (num_ranks == 1) return made;
  const Deadline deadline = std::chrono::steady_clock::now() + options.join_time;
  ASSIGN_OR_RETURN(Star star, Join(id, options.fixed_address, num_ranks, rank, deadline));
  RETURN_IF_ERROR(made->Connect(star, options, deadline));
  Communicator* self = made.get();
  made->membership_ = std::make_unique<Membership>(
      std::move(star), num_ranks, rank, options.silence_seconds,
      Membership::Events{.gone =
                             [self](int peer, const std::string& reason) {
                               if (peer < 0 || peer >= self->size_) return;
                               {
                                 std::lock_guard lock(self->state_mutex_);
                                 std::string& why = self->gone_[static_cast<size_t>(peer)];
                                 if (why.empty()) {
                                   why = reason.empty() ? "rank " + std::to_string(peer) +
                                                              " has destroyed the communicator"
                                                        : reason;
                                 }
                               }
                               self->memory_->Ring();
                             },
                         .failed = [self](const std::string& reason) { self->SetFailed(reason); }});
  return made;
}

absl::Status Communicator::Connect(const Star& star, const CommunicatorOptions& options,
                                   Deadline deadline) {
  ASSIGN_OR_RETURN(const std::vector<std::string> all,
                   Exchange(star, size_, rank_, Pack(memory_->address()), deadline));
  std::vector<std::unique_ptr<SharedMemory>> peers(links_.size());
  // By rank: '1' if its file is open here.
  std::string reached(links_.size(), '0');
  for (int peer = 0; peer < size_; ++peer) {
    const auto index = static_cast<size_t>(peer);
    if (!options.shares_memory || peer == rank_ || all[index].size() < sizeof(SharedMemoryAddress))
      continue;
    if (all[index].substr(sizeof(SharedMemoryAddress)) != HostName()) continue;
    SharedMemoryAddress address;
    std::memcpy(&address, all[index].data(), sizeof(address));
    absl::StatusOr<std::unique_ptr<SharedMemory>> opened = SharedMemory::Open(address, size_);
    if (!opened.ok()) continue;
    peers[index] = std::move(opened).value();
    reached[index] = '1';
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> reachable,
                   Exchange(star, size_, rank_, reached, deadline));
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const auto index = static_cast<size_t>(peer);
    const bool is_mutual = reached[index] == '1' && reachable[index].size() == links_.size() &&
                           reachable[index][static_cast<size_t>(rank_)] == '1';
    if (!is_mutual) continue;
    links_[index] =
        std::make_unique<SharedMemoryLink>(memory_.get(), std::move(peers[index]), rank_, peer);
  }
  // All ranks know of each pair whether it shares memory.
  const bool all_share = std::all_of(reachable.begin(), reachable.end(), [](const auto& row) {
    return std::count(row.begin(), row.end(), '0') == 1;  // the rank itself
  });
  return all_share ? absl::OkStatus() : ConnectOverNetwork(star, options, deadline);
}

absl::Status Communicator::ConnectOverNetwork(const Star& star, const CommunicatorOptions& options,
                                              Deadline deadline) {
  FabricOptions fabric{.any_provider = options.any_provider};
  ASSIGN_OR_RETURN(fabric.interface, InterfaceAddress(options.interfaces));
  absl::StatusOr<std::unique_ptr<FabricEndpoint>> opened = FabricEndpoint::Open(rank_, fabric);
  // Every rank hears of a rank that cannot, so that all end with its reason.
  const std::string own =
      opened.ok() ? "1" + (*opened)->address() : "0" + std::string(opened.status().message());
  ASSIGN_OR_RETURN(const std::vector<std::string> all, Exchange(star, size_, rank_, own, deadline));
  for (int peer = 0; peer < size_; ++peer) {
    const std::string& text = all[static_cast<size_t>(peer)];
    if (!text.starts_with('1')) {
      return Unimplemented("rank ", peer, ": ", text.substr(std::min<size_t>(1, text.size())));
    }
  }
  fabric_ = std::move(opened).value();
  for (int peer = 0; peer < size_; ++peer) {
    const auto index = static_cast<size_t>(peer);
    if (peer == rank_ || links_[index] != nullptr) continue;
    ASSIGN_OR_RETURN(links_[index], fabric_->Connect(peer, all[index].substr(1)));
  }
  return absl::OkStatus();
}

uint32_t Communicator::Look() {
  if (fabric_ != nullptr) fabric_->Progress();
  return memory_->Look();
}

// The network rings no doorbell, so with it the wait is short.
void Communicator::WaitForChange(uint32_t seen) {
  if (fabric_ == nullptr) return memory_->WaitForRing(seen);
  const auto deadline = std::chrono::steady_clock::now() + kNetworkSpin;
  do {
    if (memory_->Look() != seen) return;
    fabric_->Progress();
    SpinOnce();
  } while (std::chrono::steady_clock::now() < deadline);
}

Communicator::Ticket Communicator::Queue(const Lanes& lanes) {
  Ticket ticket{std::vector<uint64_t>(links_.size(), 0), std::vector<uint64_t>(links_.size(), 0)};
  std::lock_guard lock(queue_mutex_);
  for (size_t peer = 0; peer < links_.size(); ++peer) {
    if (lanes.sends[peer]) ticket.sends[peer] = ++last_.sends[peer];
    if (lanes.receives[peer]) ticket.receives[peer] = ++last_.receives[peer];
  }
  return ticket;
}

bool Communicator::IsTurn(const Ticket& ticket) const {
  for (size_t peer = 0; peer < links_.size(); ++peer) {
    if (ticket.sends[peer] != 0 && ticket.sends[peer] != running_.sends[peer]) return false;
    if (ticket.receives[peer] != 0 && ticket.receives[peer] != running_.receives[peer]) {
      return false;
    }
  }
  return true;
}

void Communicator::Begin(const Ticket& ticket) {
  std::unique_lock lock(queue_mutex_);
  turn_.wait(lock, [&] { return IsTurn(ticket); });
}

void Communicator::End(const Ticket& ticket) {
  {
    std::lock_guard lock(queue_mutex_);
    for (size_t peer = 0; peer < links_.size(); ++peer) {
      if (ticket.sends[peer] != 0) ++running_.sends[peer];
      if (ticket.receives[peer] != 0) ++running_.receives[peer];
    }
  }
  turn_.notify_all();
}

void Communicator::SetFailed(const std::string& reason) {
  {
    std::lock_guard lock(state_mutex_);
    if (failed()) return;
    reason_ = reason;
    failed_.store(true, std::memory_order_release);
  }
  memory_->Ring();
}

void Communicator::Fail(const std::string& reason) {
  if (failed()) return;
  // The others hear of it first, because this process may end as soon as it does.
  if (membership_ != nullptr) membership_->Declare(reason);
  SetFailed(reason);
}

std::string Communicator::reason() const {
  std::lock_guard lock(state_mutex_);
  return reason_;
}

std::string Communicator::NetworkFailure() const {
  return fabric_ == nullptr ? "" : fabric_->Failure();
}

std::string Communicator::WhyGone(int peer) const {
  std::lock_guard lock(state_mutex_);
  return gone_[static_cast<size_t>(peer)];
}

}  // namespace hpu::emulator
