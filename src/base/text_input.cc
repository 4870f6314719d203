#include "base/text_input.h"

#include <cstring>
#include <utility>

#include "base/hash.h"

namespace trireme {
namespace {

class TextBytes final : public InputBytes {
 public:
  explicit TextBytes(std::string text) : text_(std::move(text)) {}
  int64_t bytes() const override { return int64_t(text_.size()); }
  Status read(int64_t offset, std::span<std::byte> out) const override {
    std::memcpy(out.data(), text_.data() + offset, out.size());
    return Done{};
  }
  void will_read(int64_t, int64_t) const override {}
  uint64_t checksum() const override { return hash64(text_); }

 private:
  const std::string text_;
};

}  // namespace

InputFile input_of_text(std::string path, std::string text) {
  return {std::move(path), std::make_shared<TextBytes>(std::move(text))};
}

}  // namespace trireme
