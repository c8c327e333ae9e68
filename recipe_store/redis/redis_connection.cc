#include "recipe_store/redis/redis_connection.h"

namespace hpu::store {
namespace {

constexpr size_t kReadBytes = 256 << 10;

// Returns the command's head and small arguments in the protocol's form: "*3\r\n$3\r\nSET\r\n...".
// With a payload it ends in the payload's length; the payload and kLineEnd follow.
std::string Encode(const RedisCommand& command) {
  const size_t count = command.words.size() + (command.payload ? 1 : 0);
  std::string text = "*" + std::to_string(count) + "\r\n";
  for (const std::string& word : command.words) {
    text += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  if (command.payload) text += "$" + std::to_string(command.payload->size()) + "\r\n";
  return text;
}

constexpr uint8_t kLineEnd[] = {'\r', '\n'};

std::span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisConnection::Open(
    const RedisEndpoint& endpoint, const std::string& user, const std::string& password,
    Deadline deadline) {
  ASSIGN_OR_RETURN(RedisSocket socket, RedisSocket::Connect(endpoint, deadline));
  std::unique_ptr<RedisConnection> connection(new RedisConnection(std::move(socket)));
  if (!password.empty()) RETURN_IF_ERROR(connection->LogIn(user, password, deadline));
  return connection;
}

absl::Status RedisConnection::LogIn(const std::string& user, const std::string& password,
                                    Deadline deadline) {
  RedisCommand command;
  command.words = {"AUTH"};
  if (!user.empty()) command.words.push_back(user);
  command.words.push_back(password);
  const RedisCommand* const commands[] = {&command};
  RedisTraffic traffic;
  ASSIGN_OR_RETURN(const std::vector<RedisReply> replies, Run(commands, deadline, traffic));
  if (!replies[0].is_error()) return absl::OkStatus();
  return Annotate(ErrorOf(replies[0]), "logging in");
}

absl::StatusOr<std::vector<RedisReply>> RedisConnection::Run(
    std::span<const RedisCommand* const> commands, Deadline deadline, RedisTraffic& traffic) {
  std::vector<std::string> heads;
  // `output` points into the texts, so they must not move.
  heads.reserve(commands.size());
  std::vector<std::span<const uint8_t>> output;
  for (const RedisCommand* const command : commands) {
    heads.push_back(Encode(*command));
    output.push_back(BytesOf(heads.back()));
    if (!command->payload) continue;
    output.push_back(*command->payload);
    output.push_back(kLineEnd);
  }
  for (const std::span<const uint8_t> bytes : output) traffic.bytes_written += bytes.size();
  size_t next = 0;
  std::vector<RedisReply> replies;
  std::vector<char> input(kReadBytes);
  while (replies.size() < commands.size()) {
    ASSIGN_OR_RETURN(std::optional<RedisReply> reply,
                     reader_.Next(commands[replies.size()]->limit));
    if (reply) {
      replies.push_back(*std::move(reply));
      continue;
    }
    ASSIGN_OR_RETURN(const size_t size, socket_.Exchange(output, next, input, deadline));
    traffic.bytes_read += size;
    reader_.Feed({input.data(), size});
  }
  // The server has answered what was not sent yet. It would answer the rest later, to another
  // caller.
  if (next < output.size()) return DataLoss("the server answered more than it was asked");
  return replies;
}

}  // namespace hpu::store
