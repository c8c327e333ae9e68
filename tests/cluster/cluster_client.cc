// Processes that call compile servers with the fake compiler, and print the results in lines of
// JSON: one per call, or one per thread with the time of each call (--seconds).
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <barrier>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <thread>

#include "base/log.h"
#include "tests/cluster/calls.h"
#include "tests/service/fake_backend.h"

namespace hpu::cluster {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

struct Flags {
  CallerOptions caller;
  std::string servers;
  std::string call = "compile";
  uint64_t first = 0;
  uint64_t count = 1;
  uint64_t seed = 1;
  int processes = 1;
  int threads = 1;
  int rounds = 1;
  int timeout_ms = 60'000;
  double seconds = 0;
  bool rotate = false;
  bool in_order = false;
};

void Declare(CLI::App& app, Flags& flags) {
  app.add_option("--server", flags.servers, "addresses, separated by commas")->required();
  app.add_flag("--rotate", flags.rotate, "process N asks the Nth server first");
  client::Access& access = flags.caller.servers.access;
  app.add_option("--ca", access.ca_file, "authorities of the servers' certificates");
  app.add_option("--token", access.token_file, "file of the token to show");
  app.add_option("--certificate", access.certificate_file, "certificate to show");
  app.add_option("--key", access.key_file, "its key");
  app.add_option("--keyring", flags.caller.keyring, "file of the public keys to believe");
  app.add_option("--build-id", flags.caller.build_id, "of the compiler that is wanted");
  app.add_option("--call", flags.call, "compile or get")->check(CLI::IsMember({"compile", "get"}));
  app.add_option("--say", flags.caller.says, "to the compiler (tests/service/fake_backend.h)");
  app.add_option("--first", flags.first, "number of the first program");
  app.add_option("--count", flags.count, "programs that each thread calls for");
  app.add_option("--rounds", flags.rounds, "how often it does so");
  app.add_option("--seed", flags.seed, "of the order, which is each thread's own");
  app.add_flag("--in-order", flags.in_order, "by number instead");
  app.add_option("--processes", flags.processes, "each with connections of its own");
  app.add_option("--threads", flags.threads, "of each process, each with a connection");
  app.add_option("--timeout-ms", flags.timeout_ms, "of one call");
  app.add_option("--seconds", flags.seconds, "get for so long, as fast as it goes");
  app.add_flag("--raw", flags.caller.raw, "verify nothing, to see what servers can do");
  app.add_flag("!--no-check", flags.caller.check, "do not compare programs with the compiler's");
}

// The text is written in one piece, because other processes write as well.
void Print(const json& line) {
  const std::string text = line.dump() + "\n";
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) _exit(1);  // nobody reads
}

CallerOptions OptionsOf(const Flags& flags, int process) {
  CallerOptions options = flags.caller;
  options.timeout = std::chrono::milliseconds(flags.timeout_ms);
  options.servers.retry_after = std::chrono::seconds(1);  // as a daemon does
  auto& endpoints = options.servers.endpoints;
  endpoints = client::ParseEndpoints(flags.servers).value();
  if (flags.rotate) {
    std::ranges::rotate(endpoints, endpoints.begin() + process % std::ssize(endpoints));
  }
  return options;
}

void CallEach(const Flags& flags, Caller& caller, int process, int thread) {
  std::vector<uint64_t> numbers(flags.count);
  std::iota(numbers.begin(), numbers.end(), flags.first);
  std::mt19937_64 random(flags.seed + static_cast<uint64_t>(process) * 1000 +
                         static_cast<uint64_t>(thread));
  for (int round = 0; round < flags.rounds; ++round) {
    if (!flags.in_order) std::ranges::shuffle(numbers, random);
    for (const uint64_t number : numbers) {
      const Outcome outcome = flags.call == "get" ? caller.Get(number) : caller.Compile(number);
      Print({{"process", process},
             {"program", number},
             {"origin", outcome.origin},
             {"right", outcome.right},
             {"error", outcome.error},
             {"ms", outcome.milliseconds}});
    }
  }
}

// All threads begin when all are connected.
void CallForLong(const Flags& flags, Caller& caller, int process, int thread,
                 std::barrier<>& connected) {
  std::mt19937_64 random(flags.seed + static_cast<uint64_t>(process) * 1000 +
                         static_cast<uint64_t>(thread));
  std::vector<int64_t> micros;
  std::map<std::string, uint64_t> others;  // than hits
  caller.Get(flags.first);
  connected.arrive_and_wait();
  const Clock::time_point begin = Clock::now();
  const auto duration = std::chrono::duration<double>(flags.seconds);
  while (Clock::now() - begin < duration) {
    const Outcome outcome = caller.Get(flags.first + random() % flags.count);
    if (outcome.origin == "store" && outcome.right) {
      micros.push_back(static_cast<int64_t>(outcome.milliseconds * 1000));
    } else {
      ++others[outcome.right ? outcome.origin : "wrong: " + outcome.error];
    }
  }
  const std::chrono::duration<double> from = begin.time_since_epoch();
  const std::chrono::duration<double> to = Clock::now().time_since_epoch();
  Print({{"from", from.count()}, {"to", to.count()}, {"microseconds", micros}, {"others", others}});
}

void RunProcess(const Flags& flags, int process) {
  std::vector<std::thread> threads;
  std::barrier<> connected(flags.threads);
  for (int thread = 0; thread < flags.threads; ++thread) {
    threads.emplace_back([&flags, &connected, process, thread] {
      const std::unique_ptr<Caller> caller = MakeCaller(OptionsOf(flags, process));
      if (flags.seconds > 0) {
        CallForLong(flags, *caller, process, thread, connected);
      } else {
        CallEach(flags, *caller, process, thread);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

int Main(int argc, char** argv) {
  Flags flags;
  flags.caller.says = "quick";
  CLI::App app("Clients of compile servers, with programs of the fake compiler.");
  Declare(app, flags);
  CLI11_PARSE(app, argc, argv);
  ConfigureLog("client", LogLevel::kOff, "");
  if (const auto servers = client::ParseEndpoints(flags.servers); !servers.ok()) {
    std::cerr << ToText(servers.status()) << "\n";
    return 1;
  }
  // This happens before gRPC has a thread.
  for (int process = 1; process < flags.processes; ++process) {
    const pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      RunProcess(flags, process);
      return 0;
    }
  }
  RunProcess(flags, 0);
  int failed = 0;
  for (int status = 0; wait(&status) > 0;) failed += status == 0 ? 0 : 1;
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace hpu::cluster

int main(int argc, char** argv) { return hpu::cluster::Main(argc, argv); }
