#include "tests/store/redis_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "tests/free_port.h"

extern char** environ;

namespace hpu::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr char kServer[] = "/usr/bin/redis-server";

// Makes a socket that listens on a free port of the loopback.
int Listen(uint16_t* port, int backlog = 16) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  HPU_CHECK(bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0);
  HPU_CHECK(listen(fd, backlog) == 0);
  HPU_CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  *port = ntohs(address.sin_port);
  return fd;
}

// With setpriv the kernel ends the server if the test program dies.
pid_t Spawn(const std::vector<std::string>& command, const std::string& output) {
  std::vector<std::string> words = {"setpriv", "--pdeathsig", "KILL", "--"};
  words.insert(words.end(), command.begin(), command.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = 0;
  HPU_CHECK(posix_spawnp(&pid, "setpriv", &actions, nullptr, pointers.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

}  // namespace

std::string WhyNoRedis() {
  if (access(kServer, X_OK) == 0) return "";
  return "there is no /usr/bin/redis-server: apt-get install redis-server";
}

RedisServer::RedisServer(std::vector<std::string> arguments, const std::string& config,
                         bool is_sentinel)
    : arguments_(std::move(arguments)),
      config_(config),
      is_sentinel_(is_sentinel),
      port_(FreePort()) {
  Start();
}

RedisServer::~RedisServer() { Kill(); }

void RedisServer::Start() {
  std::ofstream(folder_.path("redis.conf")) << config_;
  std::vector<std::string> command = {kServer, folder_.path("redis.conf")};
  command.insert(command.end(),
                 {"--port", std::to_string(port_), "--bind", "127.0.0.1", "--dir", folder_.path()});
  if (is_sentinel_) {
    command.push_back("--sentinel");
  } else {
    command.insert(command.end(), {"--save", "", "--appendonly", "no"});
  }
  command.insert(command.end(), arguments_.begin(), arguments_.end());
  pid_ = Spawn(command, folder_.path("log"));
  const bool up = Eventually([&] {
    const RedisReply reply = Command({"PING"});
    return reply.kind == RedisReply::Kind::kStatus || reply.error_word() == "NOAUTH";
  });
  if (!up) {
    std::ifstream log(folder_.path("log"));
    std::fprintf(stderr, "%s\n", std::string(std::istreambuf_iterator<char>(log), {}).c_str());
  }
  HPU_CHECK(up, "redis-server does not start");
}

void RedisServer::Kill() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

void RedisServer::Signal(int number) { kill(pid_, number); }

RedisReply RedisServer::Command(std::vector<std::string> words, const std::string& password) const {
  const Deadline deadline = steady_clock::now() + kHangLimit;
  RedisReply failed;
  failed.kind = RedisReply::Kind::kError;
  auto connection = RedisConnection::Open(endpoint(), "", password, deadline);
  if (!connection.ok()) return failed;
  RedisCommand command;
  command.words = std::move(words);
  command.limit = {.bytes = 64 << 20, .elements = 1 << 20};
  const RedisCommand* const commands[] = {&command};
  RedisTraffic traffic;
  auto replies = (*connection)->Run(commands, deadline, traffic);
  return replies.ok() ? replies->front() : failed;
}

std::string RedisServer::Text(std::vector<std::string> words) const {
  const RedisReply reply = Command(std::move(words));
  if (reply.kind == RedisReply::Kind::kInteger) return std::to_string(reply.integer);
  std::string text = reply.text();
  for (const RedisReply& element : reply.elements) {
    text += (text.empty() ? "" : " ") + element.text();
  }
  return text;
}

std::vector<std::string> RedisServer::Keys(const std::string& pattern) const {
  std::vector<std::string> keys;
  for (const RedisReply& key : Command({"KEYS", pattern}).elements) keys.push_back(key.text());
  std::ranges::sort(keys);
  return keys;
}

FakeServer::FakeServer(Answer answer, Manner manner) : answer_(std::move(answer)), manner_(manner) {
  listener_ = Listen(&port_);
  thread_ = std::thread([this] { Serve(); });
}

FakeServer::~FakeServer() {
  stopping_ = true;
  thread_.join();
  close(listener_);
}

void FakeServer::Serve() {
  std::vector<std::thread> threads;
  while (!stopping_) {
    pollfd poller{listener_, POLLIN, 0};
    if (poll(&poller, 1, 10) <= 0) continue;
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    threads.emplace_back([this, fd] { ServeOne(fd); });
  }
  for (std::thread& thread : threads) thread.join();
}

void FakeServer::ServeOne(int fd) {
  char buffer[65536];
  while (!stopping_) {
    pollfd poller{fd, POLLIN, 0};
    if (poll(&poller, 1, 10) <= 0) continue;
    if (!answer_) continue;
    const ssize_t size = recv(fd, buffer, sizeof(buffer), 0);
    if (size <= 0) break;
    const std::string answer = answer_(std::string(buffer, static_cast<size_t>(size)));
    for (size_t sent = 0; sent < answer.size() && !stopping_;) {
      const size_t part = manner_ == Manner::kTrickles ? 1 : answer.size() - sent;
      const ssize_t more = send(fd, answer.data() + sent, part, MSG_NOSIGNAL);
      if (more <= 0) break;
      sent += static_cast<size_t>(more);
      // This is the trickle itself; no test waits for it.
      if (manner_ == Manner::kTrickles) std::this_thread::sleep_for(milliseconds(20));
    }
    if (manner_ == Manner::kClosesAfterAnswer) break;
  }
  close(fd);
}

FullListener::FullListener() {
  sockets_.push_back(Listen(&port_, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int i = 0; i < 4; ++i) {
    sockets_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    connect(sockets_.back(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
}

FullListener::~FullListener() {
  for (const int fd : sockets_) close(fd);
}

RedisOptions TestOptions(const std::string& addresses) {
  RedisOptions options;
  options.addresses = addresses;
  options.connect_timeout = options.command_timeout = kHangLimit;
  options.retry_after = milliseconds(200);
  options.max_retry_after = milliseconds(400);
  return options;
}

RedisOptions ImpatientOptions(const std::string& addresses) {
  RedisOptions options = TestOptions(addresses);
  options.connect_timeout = milliseconds(100);
  options.command_timeout = milliseconds(300);
  return options;
}

std::unique_ptr<RedisRecipeStore> StoreAt(const RedisOptions& options) {
  return std::make_unique<RedisRecipeStore>(RedisClient::Make(options).value());
}

std::unique_ptr<RedisRecipeStore> StoreAt(const std::string& addresses) {
  return StoreAt(TestOptions(addresses));
}

uint64_t CounterOf(const RecipeStore& store, const std::string& name) {
  std::map<std::string, uint64_t> counters;
  store.AddCounters(counters);
  return counters.at(name);
}

milliseconds TimeOf(const std::function<void()>& call) {
  const auto begin = steady_clock::now();
  call();
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
}

}  // namespace hpu::store
