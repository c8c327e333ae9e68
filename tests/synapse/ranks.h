// Runs the ranks of a test as processes of their own, because a process has one device.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "synapse/loader.h"

namespace hpu {

// One rank's process, with the device acquired and a stream. Its functions throw std::runtime_error
// with the call and the library's message.
class Rank {
 public:
  Rank(const SynapseFunctions& api, int rank, int size, int id_reader, std::vector<int> id_writers);

  int rank() const { return rank_; }
  int size() const { return size_; }
  const SynapseFunctions& api() const { return api_; }
  synStreamHandle stream() const { return stream_; }

  // Makes a communicator of all ranks: rank 0's id goes to the others through pipes.
  hcclComm_t Join();
  uint64_t Allocate(uint64_t bytes);
  // These wait for the copy.
  void Upload(const void* data, uint64_t bytes, uint64_t address);
  std::vector<uint8_t> Download(uint64_t address, uint64_t bytes);
  synStatus Synchronize() const { return api_.synStreamSynchronize(stream_); }
  std::string LastMessage() const;
  void Check(hcclResult_t result, const char* call) const;
  void Check(synStatus status, const char* call) const;
  // Throws unless both are equal.
  void Expect(bool holds, const std::string& what) const;

 private:
  const SynapseFunctions& api_;
  const int rank_;
  const int size_;
  const int id_reader_;
  const std::vector<int> id_writers_;
  synDeviceId device_ = 0;
  synStreamHandle stream_ = nullptr;
};

// Runs `body` in one process per rank, and returns by rank what it threw: empty = it returned, and
// "signal 9" and the like for a process that was killed. A process ends after 60 seconds at most;
// one that has stopped is killed when the others have ended.
std::vector<std::string> RunRanks(int size, const std::function<void(Rank&)>& body);

}  // namespace hpu
