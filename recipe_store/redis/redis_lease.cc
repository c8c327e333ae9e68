#include "recipe_store/redis/redis_lease.h"

#include <charconv>
#include <random>
#include <sstream>

namespace hpu::store {
namespace {

using Kind = RedisReply::Kind;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// KEYS: lease, token. ARGV: nonce, holder, milliseconds to live, clock in milliseconds.
// The script answers {1, what is stored} or {0, what another holder stored, its milliseconds to
// live}.
constexpr char kTake[] = R"(
local held = redis.call('GET', KEYS[1])
if held then
  if string.match(held, '^%d+ (%S+) ') == ARGV[1] then return {1, held} end
  return {0, held, redis.call('PTTL', KEYS[1])}
end
local last = tonumber(redis.call('GET', KEYS[2]) or '0') or 0
local token = string.format('%.0f', math.max(last + 1, tonumber(ARGV[4])))
local value = token .. ' ' .. ARGV[1] .. ' ' .. ARGV[2]
redis.call('SET', KEYS[2], token)
redis.call('SET', KEYS[1], value, 'NX', 'PX', ARGV[3])
return {1, value}
)";
// KEYS: lease, token (unused). ARGV: what is stored if the lease is ours, milliseconds to live.
constexpr char kRenew[] = R"(
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
)";
constexpr char kRelease[] = R"(
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
)";
constexpr char kLook[] = R"(
local held = redis.call('GET', KEYS[1])
if not held then return {0} end
return {0, held, redis.call('PTTL', KEYS[1])}
)";

std::string Nonce() {
  std::random_device random;
  std::ostringstream text;
  for (int i = 0; i < 4; ++i) text << std::hex << random();
  return text.str();
}

std::string ClockMilliseconds() {
  return std::to_string(
      std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
}

struct Stored {
  uint64_t token = 0;
  std::string holder;
};

absl::StatusOr<Stored> ParseStored(const RedisReply& reply) {
  RETURN_IF_ERROR(ExpectKind(reply, Kind::kText, "reading a lease"));
  const std::string text = reply.text();
  const size_t nonce = text.find(' ');
  const size_t holder = nonce == std::string::npos ? nonce : text.find(' ', nonce + 1);
  Stored stored;
  if (holder != std::string::npos) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + nonce, stored.token);
    stored.holder = text.substr(holder + 1);
    if (error == std::errc() && end == text.data() + nonce) return stored;
  }
  return DataLoss("reading a lease: what is stored is no token, nonce and holder");
}

// Reads {0, stored, milliseconds} of a lease that another holder has.
absl::StatusOr<LeaseHolder> ParseHolder(const RedisReply& reply) {
  if (reply.elements.size() != 3 || reply.elements[2].kind != Kind::kInteger) {
    return DataLoss("reading a lease: the answer has another form");
  }
  ASSIGN_OR_RETURN(Stored stored, ParseStored(reply.elements[1]));
  // Our leases all expire, so a waiter must not wait for one that would not.
  if (reply.elements[2].integer < 0) return DataLoss("reading a lease: it has no end");
  return LeaseHolder{std::move(stored.holder), stored.token,
                     milliseconds(reply.elements[2].integer)};
}

absl::Status CheckTtl(milliseconds ttl) {
  if (ttl.count() > 0) return absl::OkStatus();
  return InvalidArgument("a lease must live for some time, not ", ttl.count(), " ms");
}

absl::Status Lost(const Lease& lease) {
  return Error(absl::StatusCode::kAborted, "the lease of ", ToHex(lease.key), " is no longer of ",
               lease.holder, " with token ", lease.fencing_token);
}

}  // namespace

std::string RedisLeaseKeeper::key(const Digest& name) const {
  return "{" + client_->options().prefix + ":l}:" + ToHex(name);
}

absl::StatusOr<RedisReply> RedisLeaseKeeper::RunScript(const char* script, const Digest& name,
                                                       std::vector<std::string> arguments) {
  RedisCommand command;
  command.key = key(name);
  command.words = {"EVAL", script, "2", command.key, "{" + client_->options().prefix + ":l}:token"};
  command.words.insert(command.words.end(), arguments.begin(), arguments.end());
  ASSIGN_OR_RETURN(RedisReply reply, client_->RunOne(command, client_->DeadlineFor(0)));
  if (reply.is_error()) return Annotate(ErrorOf(reply), "asking for a lease");
  return reply;
}

absl::StatusOr<Lease> RedisLeaseKeeper::TryTake(const Digest& name, const std::string& holder,
                                                milliseconds ttl) {
  RETURN_IF_ERROR(CheckTtl(ttl));
  if (holder.empty() || holder.size() > kMaxHolderBytes) {
    return InvalidArgument("the holder of a lease has ", holder.size(), " bytes; 1 to ",
                           kMaxHolderBytes, " are allowed");
  }
  const steady_clock::time_point asked = steady_clock::now();
  ASSIGN_OR_RETURN(
      const RedisReply reply,
      RunScript(kTake, name, {Nonce(), holder, std::to_string(ttl.count()), ClockMilliseconds()}));
  if (reply.elements.size() == 2 && reply.elements[0].integer == 1) {
    ASSIGN_OR_RETURN(const Stored stored, ParseStored(reply.elements[1]));
    return Lease{name, holder, stored.token, asked + ttl, reply.elements[1].text()};
  }
  ASSIGN_OR_RETURN(const LeaseHolder other, ParseHolder(reply));
  return Error(absl::StatusCode::kAlreadyExists, "the lease of ", ToHex(name), " is held by ",
               other.holder, " for ", other.remaining.count(), " ms more");
}

absl::Status RedisLeaseKeeper::Renew(Lease& lease, milliseconds ttl) {
  RETURN_IF_ERROR(CheckTtl(ttl));
  const steady_clock::time_point asked = steady_clock::now();
  ASSIGN_OR_RETURN(const RedisReply reply,
                   RunScript(kRenew, lease.key, {lease.proof, std::to_string(ttl.count())}));
  RETURN_IF_ERROR(ExpectKind(reply, Kind::kInteger, "renewing a lease"));
  if (reply.integer != 1) return Lost(lease);
  lease.expires_at = asked + ttl;
  return absl::OkStatus();
}

absl::Status RedisLeaseKeeper::Release(const Lease& lease) {
  ASSIGN_OR_RETURN(const RedisReply reply, RunScript(kRelease, lease.key, {lease.proof}));
  RETURN_IF_ERROR(ExpectKind(reply, Kind::kInteger, "releasing a lease"));
  return reply.integer == 1 ? absl::OkStatus() : Lost(lease);
}

absl::StatusOr<LeaseHolder> RedisLeaseKeeper::Look(const Digest& name) {
  ASSIGN_OR_RETURN(const RedisReply reply, RunScript(kLook, name, {}));
  if (reply.elements.size() == 1) return NotFound("nobody holds the lease of ", ToHex(name));
  return ParseHolder(reply);
}

}  // namespace hpu::store
