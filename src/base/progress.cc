#include "base/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace trireme {
namespace {

// Copies the end of `text`, because the end names the file.
template <size_t kSize>
void copy_end(std::string_view text, char (&to)[kSize]) {
  const size_t length = std::min(text.size(), kSize - 1);
  std::memcpy(to, text.data() + (text.size() - length), length);
}

}  // namespace

void Progress::begin(std::string_view call, std::string_view subject) {
  ProgressCall shown;
  copy_end(call, shown.call);
  copy_end(subject, shown.subject);
  call_.store(shown);
  advance();
}

void Progress::end() {
  call_.store({});
  advance();
}

void Progress::mirror(uint64_t count, const ProgressCall& call) {
  call_.store(call);
  count_.store(count, std::memory_order_relaxed);
}

std::optional<ProgressCall> Progress::current() const {
  const std::optional<ProgressCall> call = call_.load();
  if (!call || call->call[0] == '\0') return std::nullopt;
  return call;
}

std::string stall_text(int rank, double seconds, const std::optional<ProgressCall>& call) {
  const std::string text = fmt::format("rank {} has made no progress for {:.3g} s", rank, seconds);
  return call ? fmt::format("{} in {} of {}", text, call->call, call->subject) : text;
}

}  // namespace trireme
