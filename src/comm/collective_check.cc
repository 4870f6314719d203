#include "comm/collective_check.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "base/element.h"
#include "base/hash.h"

namespace trireme {
namespace {

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

bool in_place(Collective c) {
  return c == Collective::AllReduce || c == Collective::Reduce || c == Collective::Broadcast;
}

// Rounds the value to the dtype.
double rounded(DType dtype, double value) {
  alignas(8) char cell[8];
  write_element(cell, dtype, 0, value);
  return read_element(cell, dtype, 0);
}

}  // namespace

std::string to_string(const CollectiveCase& c) {
  return fmt::format("{} {} {} {} count={} root={} {}{}{} seed={}", name_of(c.collective),
                     name_of(c.algorithm), name_of(c.op), name_of(c.dtype), c.count, c.root,
                     c.integers ? "integers" : "random", c.uneven ? " uneven" : "",
                     c.asynchronous ? " async" : "", c.seed);
}

CollectiveRun::CollectiveRun(World& world, Group& group, const CollectiveCase& c, bool visible)
    : group_(group), case_(c) {
  const int n = group.size();
  const int me = group.rank();
  const bool a2a = c.collective == Collective::AllToAll;
  for (int r = 0; r < n; ++r) {
    counts_.push_back(a2a && c.uneven ? sent_to(me, r) : balanced_count(c.count, n, r));
    if (a2a) recv_counts_.push_back(sent_to(r, me));
  }
  if (c.uneven && !a2a) {  // every second part is empty; its elements belong to the next part
    for (int r = 0; r + 1 < n; r += 2) {
      counts_[size_t(r) + 1] += std::exchange(counts_[size_t(r)], 0);
    }
  }
  const int64_t full = std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
  int64_t in_count = full;
  int64_t out_count = full;
  if (gathers(c.collective)) in_count = part(me);
  if (c.collective == Collective::ReduceScatter || c.collective == Collective::Scatter) {
    out_count = part(me);
  }
  if (a2a) out_count = std::accumulate(recv_counts_.begin(), recv_counts_.end(), int64_t{0});
  const int64_t element = size_of(c.dtype);
  const auto memory = [&](int64_t count, std::unique_ptr<SharedMemory>& shared,
                          std::vector<uint64_t>& own) -> void* {
    if (visible) {
      shared = world.allocate_shared(count * element);
      return shared->data();
    }
    own.resize(size_t(count * element / 8 + 1));
    return own.data();
  };
  args_ = {.collective = c.collective, .op = c.op, .algorithm = c.algorithm, .root = c.root};
  args_.in = {memory(in_count, in_, private_in_), c.dtype, Shape{in_count}};
  args_.out = args_.in;
  if (!in_place(c.collective)) {
    args_.out = {memory(out_count, out_, private_out_), c.dtype, Shape{out_count}};
  }
  if (c.uneven && !in_place(c.collective)) args_.counts = counts_;
  if (c.uneven && a2a) args_.recv_counts = recv_counts_;
  if (c.collective == Collective::Gather && me != c.root) args_.out.data = nullptr;
  if (c.collective == Collective::Scatter && me != c.root) args_.in.data = nullptr;
}

int64_t CollectiveRun::sent_to(int from, int to) const {
  const int n = group_.size();
  if (!case_.uneven) return balanced_count(case_.count, n, to);
  return int64_t(mix(case_.seed * 977 + uint64_t(from * n + to)) % uint64_t(case_.count / n + 1));
}

int64_t CollectiveRun::part_begin(int rank) const {
  return std::accumulate(counts_.begin(), counts_.begin() + rank, int64_t{0});
}

double CollectiveRun::input(int rank, int64_t i) const {
  const uint64_t bits = mix(mix(case_.seed * 1009 + uint64_t(rank)) + uint64_t(i));
  if (case_.integers || case_.dtype == DType::I32 || case_.dtype == DType::I64) {
    return double(int64_t(bits % 17) - 8);
  }
  return rounded(case_.dtype, double(int64_t(bits >> 40)) / double(1 << 23) - 1.0);
}

void CollectiveRun::fill() {
  const int me = group_.rank();
  if (args_.out.data != nullptr) {
    for (int64_t i = 0; i < args_.out.num_elements(); ++i) {
      write_element(args_.out.data, case_.dtype, i, -99);
    }
  }
  if (args_.in.data == nullptr) return;
  const int64_t begin = gathers(case_.collective) ? part_begin(me) : 0;
  for (int64_t i = 0; i < args_.in.num_elements(); ++i) {
    write_element(args_.in.data, case_.dtype, i, input(me, begin + i));
  }
}

void CollectiveRun::run() {
  if (case_.asynchronous) {
    group_.start(args_).wait();
  } else {
    group_.run(args_);
  }
}

double CollectiveRun::expected(int64_t i, double* magnitude) const {
  double value = input(0, i);
  *magnitude = std::abs(value);
  for (int r = 1; r < group_.size(); ++r) {
    const double x = input(r, i);
    *magnitude += std::abs(x);
    switch (case_.op) {
      case ReduceOp::Max:
        value = std::max(value, x);
        break;
      case ReduceOp::Min:
        value = std::min(value, x);
        break;
      default:
        value += x;
    }
  }
  if (case_.op == ReduceOp::Mean) {
    value /= group_.size();
    *magnitude /= group_.size();
  }
  return value;
}

std::string CollectiveRun::compare(int64_t out_index, double value, double bound) const {
  const double got = read_element(args_.out.data, case_.dtype, out_index);
  if (std::abs(got - value) <= bound) return "";
  return fmt::format("rank {} of {}: {}: element {} is {}, expected {} within {}", group_.rank(),
                     group_.size(), to_string(case_), out_index, got, value, bound);
}

std::string CollectiveRun::verify_reduced(int64_t begin, int64_t count) const {
  const double unit = case_.dtype == DType::BF16  ? std::exp2(-9)
                      : case_.dtype == DType::F16 ? std::exp2(-12)
                                                  : std::exp2(-24);
  const bool exact_op = case_.op == ReduceOp::Max || case_.op == ReduceOp::Min;
  const bool integral = case_.dtype == DType::I32 || case_.dtype == DType::I64;
  for (int64_t i = 0; i < count; ++i) {
    double magnitude = 0;
    double value = expected(begin + i, &magnitude);
    double bound = (group_.size() + 1) * unit * magnitude;
    if (integral || case_.integers || exact_op) {
      // Goes through float, because a quotient of two exact integers is rounded once to float.
      value = integral ? std::trunc(value) : rounded(case_.dtype, double(float(value)));
      bound = 0;
    }
    if (std::string wrong = compare(i, value, bound); !wrong.empty()) return wrong;
  }
  return "";
}

std::string CollectiveRun::verify_copied(int64_t out_begin, int source, int64_t in_begin,
                                         int64_t count) const {
  for (int64_t i = 0; i < count; ++i) {
    std::string wrong = compare(out_begin + i, input(source, in_begin + i), 0);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string CollectiveRun::verify() const {
  const int me = group_.rank();
  const int n = group_.size();
  const int64_t full = args_.in.num_elements();
  switch (case_.collective) {
    case Collective::AllReduce:
      return verify_reduced(0, full);
    case Collective::Reduce:
      return me == case_.root ? verify_reduced(0, full) : "";
    case Collective::ReduceScatter:
      return verify_reduced(part_begin(me), part(me));
    case Collective::Broadcast:
      return verify_copied(0, case_.root, 0, full);
    case Collective::Scatter:
      return verify_copied(0, case_.root, part_begin(me), part(me));
    case Collective::Gather:
      if (me != case_.root) return "";
      [[fallthrough]];
    case Collective::AllGather:
      for (int r = 0; r < n; ++r) {
        std::string wrong = verify_copied(part_begin(r), r, part_begin(r), part(r));
        if (!wrong.empty()) return wrong;
      }
      return "";
    case Collective::AllToAll: {
      int64_t out_begin = 0;
      for (int r = 0; r < n; ++r) {
        int64_t in_begin = 0;
        for (int i = 0; i < me; ++i) in_begin += sent_to(r, i);
        std::string wrong = verify_copied(out_begin, r, in_begin, sent_to(r, me));
        if (!wrong.empty()) return wrong;
        out_begin += sent_to(r, me);
      }
      return "";
    }
    default:
      return "";
  }
}

uint64_t CollectiveRun::output_hash() const {
  if (args_.out.data == nullptr) return 0;
  return hash64(
      std::string_view(static_cast<const char*>(args_.out.data), size_t(args_.out.bytes())));
}

std::string check_collective(World& world, Group& group, const CollectiveCase& c, bool visible) {
  CollectiveRun run(world, group, c, visible);
  run.fill();
  run.run();
  return run.verify();
}

}  // namespace trireme
