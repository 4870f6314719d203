#include "store/store_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/hash.h"

namespace trireme {
namespace {

constexpr int kMostData = 32;
constexpr int kMostParity = 8;

// Returns -1 if the text is not a number from 1 to `most`.
int count_of(std::string_view text, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && number >= 1 && number <= most ? number : -1;
}

ReedSolomon reed_solomon(const StoreCode& code) {
  Result<ReedSolomon> made = ReedSolomon::make(code.num_data, code.num_parity);
  TRIREME_CHECK(made.ok(), "the code of a store exists");
  return *made;
}

Status copy_intact(std::span<Block> chunks, std::span<const int> lost) {
  std::vector<Block*> wanted;
  const Block* intact = nullptr;
  for (int index = 0; index < int(chunks.size()); ++index) {
    Block& chunk = chunks[size_t(index)];
    const bool is_lost = std::ranges::count(lost, index) > 0;
    if (is_lost || hash64(chunk.bytes) != chunk.checksum) {
      wanted.push_back(&chunk);
    } else {
      intact = &chunk;
    }
  }
  if (intact == nullptr) return damaged("all copies are lost or damaged");
  for (Block* chunk : wanted) {
    if (chunk->checksum != intact->checksum) return damaged("two copies have other checksums");
    std::ranges::copy(intact->bytes, chunk->bytes.begin());
  }
  return Done{};
}

}  // namespace

Result<StoreCode> parse_store_code(std::string_view text) {
  if (text == "xor") return StoreCode{2, 1};
  if (text.starts_with("copies:")) {
    const int copies = count_of(text.substr(7), kMostParity + 1);
    if (copies >= 2) return StoreCode{1, copies - 1};
  }
  const size_t plus = text.find('+');
  if (plus != std::string_view::npos) {
    const StoreCode code{count_of(text.substr(0, plus), kMostData),
                         count_of(text.substr(plus + 1), kMostParity)};
    if (code.num_data > 0 && code.num_parity > 0) return code;
  }
  return usage(fmt::format(
      "no code is called \"{}\": there are K+M with K from 1 to {} and M from 1 to {}, such as "
      "8+3, 4+2 or 2+1; xor, which is 2+1; and copies:N with N from 2 to {}",
      text, kMostData, kMostParity, kMostParity + 1));
}

std::string text_of(const StoreCode& code) {
  if (code.num_data == 1) return fmt::format("copies:{}", code.num_chunks());
  return fmt::format("{}+{}", code.num_data, code.num_parity);
}

void encode_chunks(const StoreCode& code, std::span<Block> chunks) {
  if (code.num_data > 1) return reed_solomon(code).encode(chunks);
  const uint64_t checksum = hash64(chunks[0].bytes);
  for (Block& chunk : chunks) {
    if (&chunk != chunks.data()) std::ranges::copy(chunks[0].bytes, chunk.bytes.begin());
    chunk.checksum = checksum;
  }
}

Status recover_chunks(const StoreCode& code, std::span<Block> chunks, std::span<const int> lost) {
  if (code.num_data == 1) return copy_intact(chunks, lost);
  Result<std::vector<int>> recovered = reed_solomon(code).recover(chunks, lost);
  if (!recovered.ok()) return recovered.error();
  return Done{};
}

Status rebuild_chunks(const StoreCode& code, std::span<Block> chunks, std::span<const int> given,
                      std::span<const int> wanted) {
  if (code.num_data > 1) return reed_solomon(code).rebuild(chunks, given, wanted);
  const Block& copy = chunks[size_t(given.front())];
  for (const int index : wanted) {
    Block& chunk = chunks[size_t(index)];
    if (chunk.checksum != copy.checksum) return damaged("two copies have other checksums");
    std::ranges::copy(copy.bytes, chunk.bytes.begin());
  }
  return Done{};
}

void rebuild_parts(const StoreCode& code, std::span<Block> parts, std::span<const int> given,
                   std::span<const int> wanted) {
  if (code.num_data > 1) return reed_solomon(code).combine(parts, given, wanted);
  for (const int index : wanted) {
    std::ranges::copy(parts[size_t(given.front())].bytes, parts[size_t(index)].bytes.begin());
  }
}

}  // namespace trireme
