#include "recipe_store/redis/redis_reply.h"

#include <hiredis/read.h>

#include <algorithm>
#include <iterator>

namespace hpu::store {
namespace {

constexpr size_t kMaxMessageBytes = 200;  // the limit of a server's text in a message of ours
constexpr uint64_t kMaxErrorBytes = 4096;
constexpr size_t kFrameBytes = 64;  // more than the longest header of an element

// Returns a server's text for our log: bounded, and visible characters only.
std::string Quoted(const Bytes& bytes) {
  std::string text;
  for (size_t i = 0; i < std::min(bytes.size(), kMaxMessageBytes); ++i) {
    text += bytes[i] >= ' ' && bytes[i] < 0x7f ? static_cast<char>(bytes[i]) : '?';
  }
  return text;
}

const char* NameOf(RedisReply::Kind kind) {
  switch (kind) {
    case RedisReply::Kind::kNil:
      return "nil";
    case RedisReply::Kind::kText:
      return "text";
    case RedisReply::Kind::kStatus:
      return "a status";
    case RedisReply::Kind::kError:
      return "an error";
    case RedisReply::Kind::kInteger:
      return "an integer";
    case RedisReply::Kind::kArray:
      return "an array";
  }
  return "nothing known";
}

// Chooses the status by the first word of the error.
struct Advice {
  const char* word;
  const char* text;
};
constexpr Advice kAdvice[] = {
    {"OOM", "it is full: raise its maxmemory or set an eviction policy (maxmemory-policy)"},
    {"READONLY", "it is a replica: name its master too"},
    {"MISCONF", "it cannot save to its disk and refuses writes: look at its log"},
    {"LOADING", "it is still starting"},
    {"MASTERDOWN", "it is a replica without its master"},
    {"CLUSTERDOWN", "a part of the cluster is down"},
    {"NOAUTH", "it wants a password: give user and password"},
    {"WRONGPASS", "user or password are wrong"},
    {"NOPERM", "the user may not do this: extend its ACL"},
};

}  // namespace

std::string RedisReply::error_word() const {
  if (!is_error()) return "";
  return std::string(bytes.begin(), std::ranges::find(bytes, ' '));
}

absl::Status ErrorOf(const RedisReply& reply) {
  const std::string word = reply.error_word();
  if (word == "WRONGTYPE") {
    return DataLoss("the key holds something that is not ours: ", Quoted(reply.bytes));
  }
  std::string advice;
  for (const Advice& row : kAdvice) {
    if (word == row.word) advice = std::string("; ") + row.text;
  }
  return Error(absl::StatusCode::kUnavailable, "the server answered: ", Quoted(reply.bytes),
               advice);
}

absl::Status ExpectKind(const RedisReply& reply, RedisReply::Kind kind, const std::string& what) {
  if (reply.kind == kind) return absl::OkStatus();
  if (reply.is_error()) return Annotate(ErrorOf(reply), what);
  return DataLoss(what, ": the server answered ", NameOf(reply.kind), ", ", NameOf(kind),
                  " was expected");
}

// The state holds the reply that is being read, and what it may still take.
struct RedisReader::State {
  std::optional<ReplyLimit> left;
  bool over_limit = false;

  bool Take(uint64_t& from, uint64_t wanted) {
    over_limit |= wanted > from;
    if (over_limit) return false;
    from -= wanted;
    return true;
  }
};

namespace {

RedisReader::State& StateOf(const redisReadTask* task) {
  return *static_cast<RedisReader::State*>(task->privdata);
}

// Returns where the object of `task` goes: into the array that it is an element of. A root belongs
// to the reader until it is handed out.
RedisReply* Place(const redisReadTask* task, RedisReply reply) {
  if (task->parent == nullptr) return new RedisReply(std::move(reply));
  auto* const array = static_cast<RedisReply*>(task->parent->obj);
  RedisReply& element = array->elements[static_cast<size_t>(task->idx)];
  element = std::move(reply);
  return &element;
}

void* CreateText(const redisReadTask* task, char* text, size_t size) {
  RedisReader::State& state = StateOf(task);
  RedisReply reply;
  reply.kind = RedisReply::Kind::kText;
  if (task->type == REDIS_REPLY_STATUS) reply.kind = RedisReply::Kind::kStatus;
  // Errors are short, and come where something short was expected.
  if (task->type == REDIS_REPLY_ERROR && size <= kMaxErrorBytes) {
    reply.kind = RedisReply::Kind::kError;
  } else if (!state.Take(state.left->bytes, size)) {
    return nullptr;
  }
  reply.bytes.assign(text, text + size);
  return Place(task, std::move(reply));
}

void* CreateArray(const redisReadTask* task, int count) {
  RedisReader::State& state = StateOf(task);
  const auto elements = static_cast<uint64_t>(std::max(count, 0));
  if (!state.Take(state.left->elements, elements)) return nullptr;
  RedisReply reply;
  reply.kind = RedisReply::Kind::kArray;
  reply.elements.resize(elements);
  return Place(task, std::move(reply));
}

void* CreateInteger(const redisReadTask* task, long long value) {
  RedisReply reply;
  reply.kind = RedisReply::Kind::kInteger;
  reply.integer = value;
  return Place(task, std::move(reply));
}

void* CreateNil(const redisReadTask* task) { return Place(task, RedisReply()); }

// hiredis calls this for roots only.
void FreeObject(void* reply) { delete static_cast<RedisReply*>(reply); }

redisReplyObjectFunctions* Functions() {
  static redisReplyObjectFunctions functions = {CreateText, CreateArray, CreateInteger, CreateNil,
                                                FreeObject};
  return &functions;
}

}  // namespace

RedisReader::RedisReader()
    : state_(std::make_unique<State>()), reader_(redisReaderCreateWithFunctions(Functions())) {
  HPU_CHECK(reader_ != nullptr, "a reader is a few hundred bytes");
  reader_->privdata = state_.get();
}

RedisReader::~RedisReader() = default;

void RedisReader::Free::operator()(redisReader* reader) const { redisReaderFree(reader); }

void RedisReader::Feed(std::span<const char> bytes) {
  redisReaderFeed(reader_.get(), bytes.data(), bytes.size());
}

absl::StatusOr<std::optional<RedisReply>> RedisReader::Next(const ReplyLimit& limit) {
  if (!state_->left) state_->left = limit;
  void* object = nullptr;
  const int result = redisReaderGetReply(reader_.get(), &object);
  // A text that is larger than what is left is refused while it comes in, not when it is complete.
  const uint64_t most = std::max(state_->left->bytes, kMaxErrorBytes) + kFrameBytes;
  if (state_->over_limit || (result == REDIS_OK && object == nullptr && left_over() > most)) {
    return Error(absl::StatusCode::kResourceExhausted, "the answer is larger than its limit of ",
                 limit.bytes, " bytes in ", limit.elements, " elements");
  }
  if (result != REDIS_OK) return DataLoss("not the Redis protocol: ", reader_->errstr);
  if (object == nullptr) return std::optional<RedisReply>();
  const std::unique_ptr<RedisReply> reply(static_cast<RedisReply*>(object));
  state_->left.reset();
  return std::optional<RedisReply>(std::move(*reply));
}

size_t RedisReader::left_over() const { return reader_->len - reader_->pos; }

}  // namespace hpu::store
