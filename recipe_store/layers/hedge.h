// A Hedge is for look-ups at a place that may be slow, and where nothing is lost if it does not
// answer. The caller waits for a bounded time and goes on as after a miss. The look-up goes on and
// tells when it found something after all. After a late look-up no caller waits until one was in
// time again.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"

namespace hpu::store {

// While a PatientScope lives, the look-ups of its thread are waited for to their end. It is for
// callers that will not compile and so have nothing else to do.
class PatientScope {
 public:
  PatientScope() { ++depth_; }
  ~PatientScope() { --depth_; }
  PatientScope(const PatientScope&) = delete;

  static bool Here() { return depth_ > 0; }

 private:
  static thread_local int depth_;
};

// A Hedge is what the look-ups at one place have in common. Thread-safe.
class Hedge {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // An ArrivalSink takes the program that a look-up found when its callers waited no longer. It
  // runs on a thread of the Hedge with a lock held, so it must not look anything up.
  using ArrivalSink = std::function<void(const Digest& content_key)>;

  // A caller waits for a look-up for `after`, or to its end if that is 0. `name` stands before the
  // counters.
  Hedge(std::string name, std::chrono::milliseconds after);
  ~Hedge();
  Hedge(const Hedge&) = delete;

  // Sets the sink, and returns when the sink before has returned. An empty sink takes nothing.
  void OnArrival(ArrivalSink sink);
  // Finishes the look-ups that run and drops those that wait for a thread.
  void Stop();

  bool waits() const { return after_.count() == 0 || PatientScope::Here(); }
  std::chrono::milliseconds after() const { return after_; }

  // Adds "<name>.hedged", the number of look-ups that were not waited for to their end, and
  // "<name>.late", the number of those that found something.
  void AddCounters(std::map<std::string, uint64_t>& counters) const;

  // These are for HedgedLookUps. Run returns false if there are too many look-ups for one more.
  bool Run(std::function<void()> look_up);
  Time Deadline(Time begin) const;
  void NoteOverdue();
  void NoteEnd(Time begin);
  void NoteArrival(const Digest& content_key);

 private:
  void ThreadLoop();

  const std::string name_;
  const std::chrono::milliseconds after_;
  std::mutex mutex_;
  std::condition_variable work_;
  // The fields below are guarded by mutex_.
  std::deque<std::function<void()>> waiting_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool stopping_ = false;
  std::mutex sink_mutex_;
  ArrivalSink sink_;  // guarded by sink_mutex_
  std::atomic<bool> slow_{false};
  std::atomic<uint64_t> hedged_{0};
  std::atomic<uint64_t> late_{0};
};

// HedgedLookUps are look-ups of one kind, by key. Those for one key at one time are one.
// Thread-safe.
template <typename T>
class HedgedLookUps {
 public:
  using LookUp = std::function<absl::StatusOr<T>()>;
  using ContentKeyOf = Digest (*)(const T&);

  // `hedge` must outlive this object, and must be stopped before this object goes.
  HedgedLookUps(Hedge* hedge, ContentKeyOf content_key_of)
      : hedge_(hedge), content_key_of_(content_key_of) {}

  // Returns what `look_up` returns, which runs on another thread with the log fields of this one.
  // DEADLINE_EXCEEDED: it has not returned yet, and goes on. RESOURCE_EXHAUSTED: it did not begin.
  absl::StatusOr<T> Run(const Digest& key, LookUp look_up) {
    if (hedge_->waits()) return look_up();
    bool first = false;
    std::shared_ptr<UnderWay> own;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      std::shared_ptr<UnderWay>& place = under_way_[key];
      first = place == nullptr;
      if (first) place = std::make_shared<UnderWay>();
      own = place;
    }
    if (first && !hedge_->Run([this, key, own, fields = LogFields(), look_up = std::move(look_up)] {
          const LogScope scope(fields);
          End(key, *own, Try(look_up));
        })) {
      End(key, *own,
          Error(absl::StatusCode::kResourceExhausted, "too many look-ups are under way"));
    }
    std::unique_lock<std::mutex> lock(own->mutex);
    const auto ended = [&] { return own->result.has_value(); };
    if (own->ended.wait_until(lock, hedge_->Deadline(own->begin), ended)) return *own->result;
    own->overdue = true;
    hedge_->NoteOverdue();
    return Error(absl::StatusCode::kDeadlineExceeded, "no answer within ", hedge_->after().count(),
                 " ms; not waited for any longer");
  }

 private:
  struct UnderWay {
    const Hedge::Time begin = std::chrono::steady_clock::now();
    std::mutex mutex;
    std::condition_variable ended;
    std::optional<absl::StatusOr<T>> result;  // guarded by mutex
    bool overdue = false;                     // guarded by mutex; a caller went on without it
  };

  // A waiter must get an answer, also if memory runs out.
  static absl::StatusOr<T> Try(const LookUp& look_up) {
    try {
      return look_up();
    } catch (const std::exception& error) {
      return Internal("looking a program up: ", error.what());
    }
  }

  void End(const Digest& key, UnderWay& own, absl::StatusOr<T> result) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      under_way_.erase(key);
    }
    std::optional<Digest> arrived;
    {
      std::lock_guard<std::mutex> lock(own.mutex);
      if (own.overdue && result.ok()) arrived = content_key_of_(*result);
      own.result = std::move(result);
      own.ended.notify_all();
    }
    hedge_->NoteEnd(own.begin);
    if (arrived.has_value()) hedge_->NoteArrival(*arrived);
  }

  Hedge* const hedge_;
  const ContentKeyOf content_key_of_;
  std::mutex mutex_;
  std::map<Digest, std::shared_ptr<UnderWay>> under_way_;  // guarded by mutex_
};

}  // namespace hpu::store
