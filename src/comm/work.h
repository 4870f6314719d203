#pragma once

#include <memory>

namespace trireme {

struct Operation;
struct RankContext;

// A collective or transfer that runs on the rank's communication thread. Its tensors must stay
// valid until wait() has returned or test() has returned true. The destructor waits.
class [[nodiscard]] Work {
 public:
  Work() = default;  // no operation
  Work(RankContext& context, Operation* operation) : context_(&context), operation_(operation) {}
  Work(Work&& other) noexcept;
  Work& operator=(Work&& other) noexcept;
  ~Work();

  // Throws CommError with the first cause if a rank has failed or the deadline has passed. The
  // deadline counts from this call, or from the last Progress that a rank of the group has shown.
  // The default is the world's deadline.
  void wait();
  void wait(double timeout_s);
  bool test();  // true once complete; throws like wait

  // For GroupDriver: waits for an operation that it keeps itself.
  static void wait_for(RankContext& context, Operation& operation);

 private:
  void wait_ns(int64_t timeout_ns);
  void finish();

  RankContext* context_ = nullptr;
  Operation* operation_ = nullptr;
};

}  // namespace trireme
