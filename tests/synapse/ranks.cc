#include "tests/synapse/ranks.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace hpu {
namespace {

constexpr unsigned kLongestSeconds = 60;

std::string ReadText(int file) {
  std::string text;
  char bytes[512];
  for (ssize_t count = 0; (count = read(file, bytes, sizeof(bytes))) > 0;) {
    text.append(bytes, static_cast<size_t>(count));
  }
  return text;
}

std::string RunRank(int rank, int size, int id_reader, const std::vector<int>& id_writers,
                    const std::function<void(Rank&)>& body) {
  try {
    const absl::StatusOr<const SynapseFunctions*> api = LoadSynapse();
    if (!api.ok()) return std::string(api.status().message());
    Rank process(**api, rank, size, id_reader, id_writers);
    body(process);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

Rank::Rank(const SynapseFunctions& api, int rank, int size, int id_reader,
           std::vector<int> id_writers)
    : api_(api),
      rank_(rank),
      size_(size),
      id_reader_(id_reader),
      id_writers_(std::move(id_writers)) {
  Check(api_.synInitialize(), "synInitialize");
  Check(api_.synDeviceAcquire(&device_, nullptr), "synDeviceAcquire");
  Check(api_.synStreamCreateGeneric(&stream_, device_, 0), "synStreamCreateGeneric");
}

hcclComm_t Rank::Join() {
  hcclUniqueId id{};
  if (rank_ == 0) {
    Check(api_.hcclGetUniqueId(&id), "hcclGetUniqueId");
    for (const int writer : id_writers_) {
      Expect(write(writer, &id, sizeof(id)) == sizeof(id), "the id was sent");
    }
  } else {
    auto* place = reinterpret_cast<uint8_t*>(&id);
    for (size_t done = 0; done < sizeof(id);) {
      const ssize_t count = read(id_reader_, place + done, sizeof(id) - done);
      Expect(count > 0, "the id was received");
      done += static_cast<size_t>(count);
    }
  }
  hcclComm_t comm = nullptr;
  Check(api_.hcclCommInitRank(&comm, size_, id, rank_), "hcclCommInitRank");
  return comm;
}

uint64_t Rank::Allocate(uint64_t bytes) {
  uint64_t address = 0;
  Check(api_.synDeviceMalloc(device_, bytes, 0, 0, &address), "synDeviceMalloc");
  return address;
}

void Rank::Upload(const void* data, uint64_t bytes, uint64_t address) {
  void* host = nullptr;
  Check(api_.synHostMalloc(device_, bytes, 0, &host), "synHostMalloc");
  std::memcpy(host, data, bytes);
  Check(
      api_.synMemCopyAsync(stream_, reinterpret_cast<uint64_t>(host), bytes, address, HOST_TO_DRAM),
      "synMemCopyAsync");
  Check(Synchronize(), "synStreamSynchronize");
  Check(api_.synHostFree(device_, host, 0), "synHostFree");
}

std::vector<uint8_t> Rank::Download(uint64_t address, uint64_t bytes) {
  void* host = nullptr;
  Check(api_.synHostMalloc(device_, bytes, 0, &host), "synHostMalloc");
  Check(
      api_.synMemCopyAsync(stream_, address, bytes, reinterpret_cast<uint64_t>(host), DRAM_TO_HOST),
      "synMemCopyAsync");
  Check(Synchronize(), "synStreamSynchronize");
  const auto* begin = static_cast<const uint8_t*>(host);
  std::vector<uint8_t> data(begin, begin + bytes);
  Check(api_.synHostFree(device_, host, 0), "synHostFree");
  return data;
}

std::string Rank::LastMessage() const {
  const char* text = api_.synGetLastErrorMessage();
  return text != nullptr ? text : "";
}

void Rank::Check(hcclResult_t result, const char* call) const {
  Expect(result == hcclSuccess,
         std::string(call) + " returned " + api_.hcclGetErrorString(result) + ": " + LastMessage());
}

void Rank::Check(synStatus status, const char* call) const {
  Expect(status == synSuccess,
         std::string(call) + " returned " + std::to_string(status) + ": " + LastMessage());
}

void Rank::Expect(bool holds, const std::string& what) const {
  if (!holds) throw std::runtime_error(what);
}

std::vector<std::string> RunRanks(int size, const std::function<void(Rank&)>& body) {
  struct Process {
    pid_t id = 0;
    int result = -1;
  };
  std::vector<std::array<int, 2>> id_pipes(static_cast<size_t>(size));
  std::vector<int> writers;
  for (auto& pipe_ends : id_pipes) {
    if (pipe(pipe_ends.data()) != 0) throw std::runtime_error("pipe");
    writers.push_back(pipe_ends[1]);
  }
  std::vector<Process> processes;
  for (int rank = 0; rank < size; ++rank) {
    std::array<int, 2> result{};
    if (pipe(result.data()) != 0) throw std::runtime_error("pipe");
    const pid_t child = fork();
    if (child == 0) {
      alarm(kLongestSeconds);
      for (const Process& other : processes) close(other.result);
      const auto own = static_cast<size_t>(rank);
      const std::vector<int> others(writers.begin() + 1, writers.end());
      const std::string text =
          RunRank(rank, size, id_pipes[own][0], rank == 0 ? others : std::vector<int>{}, body);
      const bool sent = write(result[1], text.data(), text.size()) >= 0;
      _exit(sent ? 0 : 1);
    }
    close(result[1]);
    processes.push_back({child, result[0]});
  }
  for (const auto& pipe_ends : id_pipes) {
    close(pipe_ends[0]);
    close(pipe_ends[1]);
  }
  // The output of a process fits into its pipe, so it ends without being read.
  std::vector<int> statuses(processes.size());
  for (size_t i = 0; i < processes.size(); ++i) {
    waitpid(processes[i].id, &statuses[i], WUNTRACED);
  }
  std::vector<std::string> results;
  for (size_t i = 0; i < processes.size(); ++i) {
    if (WIFSTOPPED(statuses[i])) {
      kill(processes[i].id, SIGKILL);
      waitpid(processes[i].id, &statuses[i], 0);
    }
    std::string text = ReadText(processes[i].result);
    close(processes[i].result);
    if (WIFSIGNALED(statuses[i])) text = "signal " + std::to_string(WTERMSIG(statuses[i]));
    results.push_back(std::move(text));
  }
  return results;
}

}  // namespace hpu
