// The order in which waiting compilations get a worker. Those that somebody waits for precede those
// that only warm up a store. Within a class, tenants take turns, so that the many compilations of
// one tenant do not hold up the few of another. One in kWarmUpShare is a warming one while there
// are any: those are late, but not lost. Not thread-safe.
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
  // Promotes a warming compilation that somebody waits for now. Does nothing if it is not waiting
  // or not warming.
  void Promote(const Digest& key);
  // Does nothing if it is not waiting.
  void Erase(const Digest& key);
  std::optional<Digest> Pop();

  // All waiting keys in the order of Pop.
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
    Digest Pop();  // must not be empty

   private:
    std::map<std::string, std::deque<Digest>> tenants_;  // none is empty
    std::string last_;                                   // the tenant that had the last turn
  };

  Turns& TurnsOf(bool warm_up) { return warm_up ? warming_ : waited_for_; }

  Turns waited_for_;
  Turns warming_;
  std::map<Digest, Place> places_;
  int since_warm_up_ = 0;  // others that preceded while there were warming ones
};

}  // namespace hpu::server
