#include "emulator/collectives/rendezvous.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>

#include "base/hash.h"

namespace hpu::emulator {
namespace {

// The protocol's number changes with every change of what ranks send each other.
constexpr uint64_t kProtocol = 0x48504843434C0001;
constexpr uint64_t kIdMagic = 0x48504843434C4944;
constexpr size_t kMostUnusedListeners = 16;
constexpr uint64_t kMostBytes = uint64_t{1} << 20;  // that one rank may bring

struct Id {
  uint64_t magic = kIdMagic;
  Nonce nonce{};
  SocketAddress address;
};
static_assert(sizeof(Id) <= HCCL_UNIQUE_ID_MAX_BYTES);

// Rank 0 listens at the address and lets in who knows the nonce.
struct MeetingPoint {
  SocketAddress address;
  Nonce nonce{};
};

struct Hello {
  uint64_t protocol = kProtocol;
  Nonce nonce{};
  uint32_t num_ranks = 0;
  uint32_t rank = 0;
};

// A text follows unless `refused_bytes` is 0.
struct Answer {
  uint64_t protocol = kProtocol;
  uint32_t refused_bytes = 0;
};

struct UnusedListener {
  Nonce nonce{};
  Socket socket;
};

std::mutex listeners_mutex;
std::deque<UnusedListener>& Listeners() {
  static auto* listeners = new std::deque<UnusedListener>;
  return *listeners;
}

Socket TakeListener(const Nonce& nonce) {
  std::lock_guard lock(listeners_mutex);
  for (auto each = Listeners().begin(); each != Listeners().end(); ++each) {
    if (each->nonce != nonce) continue;
    Socket found = std::move(each->socket);
    Listeners().erase(each);
    return found;
  }
  return Socket();
}

// Ranks that know only an address share no secret.
absl::StatusOr<MeetingPoint> MeetAt(const std::string& address) {
  MeetingPoint point;
  ASSIGN_OR_RETURN(point.address, ParseAddress(address));
  const Digest digest = Sha256({reinterpret_cast<const uint8_t*>(address.data()), address.size()});
  std::copy_n(digest.begin(), point.nonce.size(), point.nonce.begin());
  return point;
}

absl::StatusOr<MeetingPoint> ReadId(const hcclUniqueId& id, const std::string& fixed_address) {
  const bool is_empty = std::all_of(std::begin(id.internal), std::end(id.internal),
                                    [](uint8_t byte) { return byte == 0; });
  if (is_empty) {
    if (!fixed_address.empty()) return MeetAt(fixed_address);
    return InvalidArgument(
        "the unique id is empty: pass the id that rank 0 got from hcclGetUniqueId, or set "
        "HCCL_COMM_ID=ip:port for all ranks");
  }
  Id content;
  std::memcpy(&content, id.internal, sizeof(content));
  if (id.length != sizeof(Id) || content.magic != kIdMagic ||
      content.address.length > sizeof(content.address.storage)) {
    return InvalidArgument("the unique id was not made by this library's hcclGetUniqueId");
  }
  return MeetingPoint{content.address, content.nonce};
}

void Refuse(const Socket& socket, const std::string& reason, Deadline deadline) {
  const Answer answer{.refused_bytes = static_cast<uint32_t>(reason.size())};
  if (WriteAll(socket, &answer, sizeof(answer), deadline).ok()) {
    (void)WriteAll(socket, reason.data(), reason.size(), deadline);
  }
}

// A connection that has not said yet who it is.
struct Stranger {
  Socket socket;
  Hello hello;
  size_t received = 0;
};

// Reads what has arrived. Returns false when the connection is of no use.
bool ReadHello(Stranger& stranger) {
  auto* place = reinterpret_cast<uint8_t*>(&stranger.hello) + stranger.received;
  const ssize_t count =
      recv(stranger.socket.descriptor(), place, sizeof(Hello) - stranger.received, 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  stranger.received += static_cast<size_t>(count);
  return count > 0;
}

std::string MissingRanks(const Star& star) {
  std::string text;
  for (size_t rank = 1; rank < star.connections.size(); ++rank) {
    if (!star.connections[rank].open()) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  }
  return text;
}

// Takes in a rank, or refuses it with a reason. Returns the reason.
std::string Admit(Stranger& stranger, int num_ranks, Star* star) {
  const Hello& hello = stranger.hello;
  if (hello.num_ranks != static_cast<uint32_t>(num_ranks)) {
    return "rank 0 forms a communicator of " + std::to_string(num_ranks) + " ranks, and rank " +
           std::to_string(hello.rank) + " one of " + std::to_string(hello.num_ranks);
  }
  if (hello.rank == 0 || hello.rank >= hello.num_ranks) {
    return "there are two ranks with the number " + std::to_string(hello.rank);
  }
  if (star->connections[hello.rank].open()) {
    return "there are two ranks with the number " + std::to_string(hello.rank);
  }
  star->connections[hello.rank] = std::move(stranger.socket);
  return "";
}

absl::StatusOr<Star> Gather(const Socket& listener, const Nonce& nonce, int num_ranks,
                            Deadline deadline) {
  Star star;
  star.connections.resize(static_cast<size_t>(num_ranks));
  std::vector<Stranger> strangers;
  int missing = num_ranks - 1;
  while (missing > 0) {
    std::vector<pollfd> ready = {{listener.descriptor(), POLLIN, 0}};
    for (const Stranger& each : strangers) ready.push_back({each.socket.descriptor(), POLLIN, 0});
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return Error(absl::StatusCode::kDeadlineExceeded,
                   "these ranks did not join in time: ", MissingRanks(star));
    }
    poll(ready.data(), ready.size(), static_cast<int>(std::min<int64_t>(left.count(), 1 << 30)));
    for (size_t i = strangers.size(); i-- > 0;) {
      if (ready[i + 1].revents == 0) continue;
      Stranger& each = strangers[i];
      const bool usable = ReadHello(each);
      if (usable && each.received < sizeof(Hello)) continue;
      if (usable && each.hello.protocol == kProtocol && each.hello.nonce == nonce) {
        const std::string refusal = Admit(each, num_ranks, &star);
        if (!refusal.empty()) {
          Refuse(each.socket, refusal, deadline);
          for (const Socket& joined : star.connections) {
            if (joined.open()) Refuse(joined, refusal, deadline);
          }
          return InvalidArgument(refusal);
        }
        --missing;
      } else if (usable && each.hello.nonce == nonce) {
        Refuse(each.socket, "rank 0 runs another version of libSynapse.so", deadline);
      }
      strangers.erase(strangers.begin() + static_cast<ptrdiff_t>(i));
    }
    if (ready[0].revents != 0) {
      Stranger stranger{
          Socket(accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC)), {}, 0};
      if (stranger.socket.open()) {
        Prepare(stranger.socket);
        strangers.push_back(std::move(stranger));
      }
    }
  }
  return star;
}

absl::StatusOr<Star> JoinRankZero(const MeetingPoint& point, int num_ranks, int rank,
                                  Deadline deadline) {
  Star star;
  ASSIGN_OR_RETURN(Socket socket, Connect(point.address, deadline));
  const Hello hello{.nonce = point.nonce,
                    .num_ranks = static_cast<uint32_t>(num_ranks),
                    .rank = static_cast<uint32_t>(rank)};
  RETURN_IF_ERROR(WriteAll(socket, &hello, sizeof(hello), deadline));
  Answer answer;
  const absl::Status answered = ReadAll(socket, &answer, sizeof(answer), deadline);
  if (!answered.ok()) {
    return Annotate(answered, "rank 0 at " + ToText(point.address) + " did not let this rank join");
  }
  if (answer.refused_bytes != 0) {
    std::string reason(std::min<uint64_t>(answer.refused_bytes, kMostBytes), '\0');
    RETURN_IF_ERROR(ReadAll(socket, reason.data(), reason.size(), deadline));
    return InvalidArgument(reason);
  }
  star.connections.push_back(std::move(socket));
  return star;
}

absl::Status SendText(const Socket& socket, const std::string& text, Deadline deadline) {
  const uint64_t bytes = text.size();
  RETURN_IF_ERROR(WriteAll(socket, &bytes, sizeof(bytes), deadline));
  return WriteAll(socket, text.data(), text.size(), deadline);
}

absl::StatusOr<std::string> ReceiveText(const Socket& socket, Deadline deadline) {
  uint64_t bytes = 0;
  RETURN_IF_ERROR(ReadAll(socket, &bytes, sizeof(bytes), deadline));
  if (bytes > kMostBytes) return DataLoss("a rank sends ", bytes, " bytes at the rendezvous");
  std::string text(bytes, '\0');
  RETURN_IF_ERROR(ReadAll(socket, text.data(), bytes, deadline));
  return text;
}

}  // namespace

absl::StatusOr<hcclUniqueId> MakeUniqueId(const std::string& interfaces,
                                          const std::string& fixed_address) {
  Id content;
  if (!fixed_address.empty()) {
    ASSIGN_OR_RETURN(const MeetingPoint point, MeetAt(fixed_address));
    content.nonce = point.nonce;
    content.address = point.address;
  } else {
    ASSIGN_OR_RETURN(content.nonce, RandomNonce());
    ASSIGN_OR_RETURN(const SocketAddress address, InterfaceAddress(interfaces));
    ASSIGN_OR_RETURN(Socket socket, Listen(address, &content.address));
    std::lock_guard lock(listeners_mutex);
    Listeners().push_back({content.nonce, std::move(socket)});
    if (Listeners().size() > kMostUnusedListeners) Listeners().pop_front();
  }
  hcclUniqueId id{};
  std::memcpy(id.internal, &content, sizeof(content));
  id.length = sizeof(content);
  return id;
}

absl::StatusOr<Star> Join(const hcclUniqueId& id, const std::string& fixed_address, int num_ranks,
                          int rank, Deadline deadline) {
  ASSIGN_OR_RETURN(const MeetingPoint point, ReadId(id, fixed_address));
  if (rank != 0) return JoinRankZero(point, num_ranks, rank, deadline);
  Socket listener = TakeListener(point.nonce);
  if (!listener.open()) {
    SocketAddress bound;
    ASSIGN_OR_RETURN(listener, Listen(point.address, &bound));
  }
  ASSIGN_OR_RETURN(Star star, Gather(listener, point.nonce, num_ranks, deadline));
  for (int each = 1; each < num_ranks; ++each) {
    const Answer answer;
    RETURN_IF_ERROR_AT(
        WriteAll(star.connections[static_cast<size_t>(each)], &answer, sizeof(answer), deadline),
        "rank " + std::to_string(each));
  }
  return star;
}

absl::StatusOr<std::vector<std::string>> Exchange(const Star& star, int num_ranks, int rank,
                                                  const std::string& own, Deadline deadline) {
  std::vector<std::string> all(static_cast<size_t>(num_ranks));
  if (rank != 0) {
    RETURN_IF_ERROR_AT(SendText(star.connections[0], own, deadline), "rank 0");
    for (std::string& each : all) {
      absl::StatusOr<std::string> text = ReceiveText(star.connections[0], deadline);
      if (!text.ok()) return Annotate(text.status(), "rank 0");
      each = std::move(text).value();
    }
    return all;
  }
  all[0] = own;
  for (size_t each = 1; each < all.size(); ++each) {
    absl::StatusOr<std::string> text = ReceiveText(star.connections[each], deadline);
    if (!text.ok()) return Annotate(text.status(), "rank " + std::to_string(each));
    all[each] = std::move(text).value();
  }
  for (size_t each = 1; each < all.size(); ++each) {
    for (const std::string& text : all) {
      RETURN_IF_ERROR_AT(SendText(star.connections[each], text, deadline),
                         "rank " + std::to_string(each));
    }
  }
  return all;
}

}  // namespace hpu::emulator
