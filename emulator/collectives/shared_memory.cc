#include "emulator/collectives/shared_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>

#include "emulator/base/spin.h"

namespace hpu::emulator {
namespace {

constexpr uint64_t kMagic = 0x314C4F4343485048;  // "HPHCCOL1"
constexpr uint64_t kPage = 4096;
constexpr uint64_t kSlots = 8;  // of a ring: a pair's slots stay in the caches of its cores
constexpr uint64_t kHeaderBytes = 64;
constexpr uint64_t kSlotStride = kHeaderBytes + kSlotBytes;
constexpr uint64_t kRingBytes = (2 * 64 + kSlots * kSlotStride + kPage - 1) / kPage * kPage;
constexpr std::chrono::milliseconds kLongestSleep{50};
// A peer that runs answers within microseconds, and one that waits for a core gains nothing from
// spinning.
constexpr std::chrono::microseconds kSpin{50};

static_assert(std::atomic<uint64_t>::is_always_lock_free);

uint64_t FileBytes(int num_ranks) { return kPage + static_cast<uint64_t>(num_ranks) * kRingBytes; }

// The word is shared between processes, which std::atomic::wait does not promise to support.
void FutexWait(std::atomic<uint32_t>& word, uint32_t expected) {
  const timespec time = {.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kLongestSleep).count()};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &time, nullptr, 0);
}

void FutexWake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

struct SharedMemory::Header {
  uint64_t magic;
  Nonce nonce;
  alignas(64) std::atomic<uint32_t> doorbell;
  std::atomic<uint32_t> sleepers;
};

struct SharedMemory::RingState {
  alignas(64) std::atomic<uint64_t> sent;      // by the peer
  alignas(64) std::atomic<uint64_t> released;  // by the owner of the file
};

absl::StatusOr<Nonce> RandomNonce() {
  Nonce nonce;
  if (getrandom(nonce.data(), nonce.size(), 0) == static_cast<ssize_t>(nonce.size())) return nonce;
  return Internal("the system gives no random numbers: ", std::strerror(errno));
}

SharedMemory::SharedMemory(void* data, uint64_t bytes, int file)
    : data_(data), bytes_(bytes), file_(file) {}

SharedMemory::~SharedMemory() {
  munmap(data_, bytes_);
  if (file_ >= 0) close(file_);
}

absl::StatusOr<std::unique_ptr<SharedMemory>> SharedMemory::Create(int num_ranks) {
  ASSIGN_OR_RETURN(const Nonce nonce, RandomNonce());
  const int file = memfd_create("hpu-collectives", MFD_CLOEXEC);
  const uint64_t bytes = FileBytes(num_ranks);
  void* data = MAP_FAILED;
  if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0) {
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  if (data == MAP_FAILED) {
    const int error = errno;
    if (file >= 0) close(file);
    return Error(absl::StatusCode::kResourceExhausted, "no memory file of ", bytes, " bytes for ",
                 num_ranks, " ranks: ", std::strerror(error));
  }
  std::unique_ptr<SharedMemory> memory(new SharedMemory(data, bytes, file));
  memory->address_ = {static_cast<uint64_t>(getpid()), file, nonce};
  memory->header().nonce = nonce;
  memory->header().magic = kMagic;
  return memory;
}

absl::StatusOr<std::unique_ptr<SharedMemory>> SharedMemory::Open(const SharedMemoryAddress& address,
                                                                 int num_ranks) {
  const std::string path =
      "/proc/" + std::to_string(address.process) + "/fd/" + std::to_string(address.descriptor);
  const uint64_t bytes = FileBytes(num_ranks);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat facts{};
  if (file < 0 || fstat(file, &facts) != 0 || static_cast<uint64_t>(facts.st_size) != bytes) {
    if (file >= 0) close(file);
    return NotFound("the memory file ", path, " cannot be opened");
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (data == MAP_FAILED) return NotFound("the memory file ", path, " cannot be mapped");
  std::unique_ptr<SharedMemory> memory(new SharedMemory(data, bytes, -1));
  memory->address_ = address;
  if (memory->header().magic != kMagic || memory->header().nonce != address.nonce) {
    return NotFound("the memory file ", path, " belongs to another communicator");
  }
  return memory;
}

SharedMemory::Header& SharedMemory::header() const { return *static_cast<Header*>(data_); }

SharedMemory::RingState& SharedMemory::ring(int writer) const {
  static_assert(sizeof(Header) <= kPage && sizeof(RingState) == 2 * 64);
  auto* bytes = static_cast<uint8_t*>(data_);
  return *reinterpret_cast<RingState*>(bytes + kPage + static_cast<uint64_t>(writer) * kRingBytes);
}

uint8_t* SharedMemory::slot(int writer, uint64_t sequence) const {
  return reinterpret_cast<uint8_t*>(&ring(writer)) + sizeof(RingState) +
         sequence % kSlots * kSlotStride;
}

uint32_t SharedMemory::Look() const { return header().doorbell.load(std::memory_order_seq_cst); }

void SharedMemory::WaitForRing(uint32_t seen) {
  Header& shared = header();
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    if (Look() != seen) return;
    SpinOnce();
  } while (std::chrono::steady_clock::now() < deadline);
  shared.sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (Look() == seen) FutexWait(shared.doorbell, seen);
  shared.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

// Either the sleeper sees the new number before it sleeps, or this thread sees the sleeper.
void SharedMemory::Ring() {
  Header& shared = header();
  shared.doorbell.fetch_add(1, std::memory_order_seq_cst);
  if (shared.sleepers.load(std::memory_order_seq_cst) != 0) FutexWake(shared.doorbell);
}

SharedMemoryLink::SharedMemoryLink(SharedMemory* own, std::unique_ptr<SharedMemory> peers,
                                   int own_rank, int peer_rank)
    : own_(own), peers_(std::move(peers)), own_rank_(own_rank), peer_rank_(peer_rank) {}

bool SharedMemoryLink::TryReserve(Slot* slot) {
  const uint64_t released = peers_->ring(own_rank_).released.load(std::memory_order_acquire);
  if (sent_ - released >= kSlots) return false;
  uint8_t* place = peers_->slot(own_rank_, sent_);
  *slot = {reinterpret_cast<MessageHeader*>(place), place + kHeaderBytes};
  return true;
}

void SharedMemoryLink::Send() {
  peers_->ring(own_rank_).sent.store(++sent_, std::memory_order_release);
  peers_->Ring();
}

bool SharedMemoryLink::TryPeek(Slot* slot) {
  if (own_->ring(peer_rank_).sent.load(std::memory_order_acquire) == received_) return false;
  uint8_t* place = own_->slot(peer_rank_, received_);
  *slot = {reinterpret_cast<MessageHeader*>(place), place + kHeaderBytes};
  return true;
}

void SharedMemoryLink::Release() {
  own_->ring(peer_rank_).released.store(++received_, std::memory_order_release);
  peers_->Ring();
}

}  // namespace hpu::emulator
