#include "interchange/llmc_header.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace trireme {
namespace {

constexpr int kWords = kLlmcHeaderBytes / 4;
constexpr int64_t kGreatest = int64_t{1} << 24;

}  // namespace

int64_t llmc_file_bytes(const LlmcModelHeader& header) {
  const int64_t C = header.d_model;
  const int64_t per_layer = 12 * C * C + 13 * C;
  const int64_t elements =
      (header.padded_vocab_size + header.seq_len + 2) * C + header.layers * per_layer;
  return kLlmcHeaderBytes + elements * size_of(header.dtype);
}

Result<LlmcModelHeader> parse_llmc_model_header(std::span<const std::byte> bytes) {
  if (static_cast<int64_t>(bytes.size()) < kLlmcHeaderBytes)
    return damaged("shorter than a header of 1024 bytes");
  std::array<int32_t, kWords> words;
  std::memcpy(words.data(), bytes.data(), sizeof words);
  if (words[0] != kLlmcModelMagic)
    return damaged(fmt::format("magic {}; a GPT-2 of llm.c has {}", words[0], kLlmcModelMagic));
  if (words[1] != 3 && words[1] != 5) {
    return Error{ErrorKind::Infeasible,
                 fmt::format("version {}; 3 (F32) and 5 (BF16) are read", words[1])};
  }
  for (int i = 2; i <= 7; ++i) {
    if (words[i] < 1 || words[i] > kGreatest)
      return damaged(fmt::format("number {} of the header is {}", i, words[i]));
  }
  const LlmcModelHeader header{.dtype = words[1] == 3 ? DType::F32 : DType::BF16,
                               .seq_len = words[2],
                               .vocab_size = words[3],
                               .layers = words[4],
                               .heads = words[5],
                               .d_model = words[6],
                               .padded_vocab_size = words[7]};
  if (header.padded_vocab_size < header.vocab_size)
    return damaged("a padded vocabulary smaller than the vocabulary");
  if (header.d_model % header.heads != 0)
    return damaged(fmt::format("{} heads do not divide {} channels", header.heads, header.d_model));
  // So that the number of bytes fits into 63 bits.
  if (header.layers > (int64_t{1} << 54) / (header.d_model * header.d_model)) {
    return damaged(fmt::format("{} layers of {} channels", header.layers, header.d_model));
  }
  return header;
}

std::string print_llmc_model_header(const LlmcModelHeader& header) {
  std::array<int32_t, kWords> words{};
  const int64_t numbers[] = {kLlmcModelMagic, header.dtype == DType::F32 ? 3 : 5,
                             header.seq_len,  header.vocab_size,
                             header.layers,   header.heads,
                             header.d_model,  header.padded_vocab_size};
  for (size_t i = 0; i < std::size(numbers); ++i) words[i] = static_cast<int32_t>(numbers[i]);
  return {reinterpret_cast<const char*>(words.data()), sizeof words};
}

}  // namespace trireme
