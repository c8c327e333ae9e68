// The order in which waiting compilations get a worker: those that somebody waits for before those
// that only warm up a store, and within a class one of each tenant in turn, so that nobody's many
// keep another's few waiting. One in kWarmUpShare goes to the warming ones while there are any:
// they are late, not lost. Not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"

namespace hpu::server {

class FairQueue {
 public:
  static constexpr int kWarmUpShare = 8;

  // The key must not be waiting.
  void Push(const Digest& key, const std::string& tenant, bool warm_up);
  // A warming one that somebody waits for now; nothing if it is not waiting or not warming.
  void Promote(const Digest& key);
  // Nothing if it is not waiting.
  void Erase(const Digest& key);
  std::optional<Digest> Pop();

  // All, as Pop would give them.
  std::vector<Digest> Order() const;
  size_t size() const { return places_.size(); }
  bool empty() const { return places_.empty(); }
  size_t size_of(const std::string& tenant) const;

 private:
  struct Place {
    std::string tenant;
    bool warm_up = false;
  };
  class Turns {
   public:
    void Push(const Digest& key, const std::string& tenant) { tenants_[tenant].push_back(key); }
    void Erase(const Digest& key, const std::string& tenant);
    bool empty() const { return tenants_.empty(); }
    size_t size_of(const std::string& tenant) const;
    Digest Pop();  // not of an empty one

   private:
    std::map<std::string, std::deque<Digest>> tenants_;  // none is empty
    std::string last_;                                   // whose turn it was
  };

  Turns& TurnsOf(bool warm_up) { return warm_up ? warming_ : waited_for_; }

  Turns waited_for_;
  Turns warming_;
  std::map<Digest, Place> places_;
  int since_warm_up_ = 0;  // others that went first while there were warming ones
};

}  // namespace hpu::server
