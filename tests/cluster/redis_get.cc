// Sends plain GETs to a Redis server, with which remote hits are compared: HOST PORT PREFIX COUNT
// CLIENTS SECONDS. It uses blocking sockets and one thread and connection per client, and prints a
// line of JSON for each.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <barrier>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Flags {
  sockaddr_in server{};
  std::string prefix;
  uint64_t count = 1;
  double seconds = 1;
};

void Check(bool good, const char* what) {
  if (good) return;
  std::cerr << what << "\n";
  std::exit(1);
}

class Client {
 public:
  explicit Client(const sockaddr_in& server)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), buffer_(1 << 20, '\0') {
    Check(connect(fd_, reinterpret_cast<const sockaddr*>(&server), sizeof(server)) == 0, "connect");
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;

  // Returns the size of the value; 0 if there is none.
  size_t Get(const std::string& key) {
    const std::string request =
        "*2\r\n$3\r\nGET\r\n$" + std::to_string(key.size()) + "\r\n" + key + "\r\n";
    Check(write(fd_, request.data(), request.size()) == std::ssize(request), "write");
    size_t have = 0;
    size_t line = std::string::npos;
    while ((line = std::string_view(buffer_).substr(0, have).find("\r\n")) == std::string::npos) {
      have += Read(have);
    }
    const long size = std::atol(buffer_.c_str() + 1);
    if (size <= 0) return 0;
    const size_t all = line + 2 + static_cast<size_t>(size) + 2;
    Check(all <= buffer_.size(), "a value above 1 MiB");
    while (have < all) have += Read(have);
    return static_cast<size_t>(size);
  }

 private:
  size_t Read(size_t at) {
    const ssize_t got = read(fd_, buffer_.data() + at, buffer_.size() - at);
    Check(got > 0, "read");
    return static_cast<size_t>(got);
  }

  const int fd_;
  std::string buffer_;
};

void GetForLong(const Flags& flags, uint64_t seed, std::barrier<>& connected) {
  Client client(flags.server);
  std::mt19937_64 random(seed);
  std::vector<int64_t> micros;
  uint64_t misses = 0;
  connected.arrive_and_wait();
  const Clock::time_point begin = Clock::now();
  while (Clock::now() - begin < std::chrono::duration<double>(flags.seconds)) {
    const Clock::time_point called = Clock::now();
    const size_t size = client.Get(flags.prefix + std::to_string(random() % flags.count));
    micros.push_back(
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - called).count());
    misses += size == 0 ? 1 : 0;
  }
  nlohmann::json line = {
      {"from", std::chrono::duration<double>(begin.time_since_epoch()).count()},
      {"to", std::chrono::duration<double>(Clock::now().time_since_epoch()).count()},
      {"microseconds", micros},
      {"others", nlohmann::json::object()}};
  if (misses > 0) line["others"]["miss"] = misses;
  const std::string text = line.dump() + "\n";
  Check(write(STDOUT_FILENO, text.data(), text.size()) == std::ssize(text), "write");
}

}  // namespace

int main(int argc, char** argv) {
  Check(argc == 7, "HOST PORT PREFIX COUNT CLIENTS SECONDS");
  Flags flags;
  flags.server.sin_family = AF_INET;
  flags.server.sin_port = htons(static_cast<uint16_t>(std::atoi(argv[2])));
  Check(inet_pton(AF_INET, argv[1], &flags.server.sin_addr) == 1, "HOST is an IPv4 address");
  flags.prefix = argv[3];
  flags.count = std::strtoull(argv[4], nullptr, 10);
  flags.seconds = std::atof(argv[6]);
  const int clients = std::atoi(argv[5]);
  std::barrier<> connected(clients);
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) {
    threads.emplace_back([&, i] { GetForLong(flags, static_cast<uint64_t>(i), connected); });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}
