#include "data/token_file_writer.h"

#include <array>
#include <cstring>
#include <utility>

#include "base/leftovers.h"

namespace trireme {
namespace {

// Packs tokens into `out`. Returns the index of the first one outside the vocabulary, or -1.
template <typename Token>
int64_t pack(std::span<const int32_t> tokens, const TokenFileHeader& header, std::byte* out) {
  constexpr auto kMask = static_cast<Token>(Token{1} << (8 * sizeof(Token) - 1));
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool is_left_out = header.has_loss_mask && !is_counted(tokens[i]);
    const int32_t number = is_left_out ? token_of(tokens[i]) : tokens[i];
    if (static_cast<uint32_t>(number) >= header.vocab_size) return static_cast<int64_t>(i);
    const Token token = static_cast<Token>(static_cast<Token>(number) | (is_left_out ? kMask : 0));
    std::memcpy(out + i * sizeof token, &token, sizeof token);
  }
  return -1;
}

}  // namespace

TokenFileWriter::TokenFileWriter(std::string path, const TokenFileHeader& header, AtomicFile file)
    : path_(std::move(path)),
      header_(header),
      file_(std::move(file)),
      payload_hash_(std::make_unique<Hasher64>()) {}

Result<TokenFileWriter> TokenFileWriter::create(const std::string& path, int64_t vocab_size,
                                                uint64_t tokenizer_hash, bool has_loss_mask) {
  if (vocab_size < 1 || vocab_size > INT32_MAX) {
    return Error{ErrorKind::Usage, path + ": a vocabulary of " + std::to_string(vocab_size) +
                                       " does not fit tokens of 4 bytes"};
  }
  remove_leftovers_of(path);
  TRIREME_TRY(file, AtomicFile::create(path));
  // Reserves the place of the header, whose content is known only at the end.
  TRIREME_TRY_DONE(file.write(std::array<std::byte, kTokenFileHeaderBytes>{}));
  const TokenFileHeader header{.token_bytes = token_bytes_of(vocab_size, has_loss_mask),
                               .vocab_size = static_cast<uint32_t>(vocab_size),
                               .tokenizer_hash = tokenizer_hash,
                               .has_loss_mask = has_loss_mask};
  return TokenFileWriter(path, header, std::move(file));
}

Status TokenFileWriter::append(std::span<const int32_t> tokens) {
  const size_t begin = packed_.size();
  packed_.resize(begin + tokens.size() * static_cast<size_t>(header_.token_bytes));
  const int64_t outside = header_.token_bytes == 2
                              ? pack<uint16_t>(tokens, header_, packed_.data() + begin)
                              : pack<uint32_t>(tokens, header_, packed_.data() + begin);
  if (outside >= 0) {
    packed_.resize(begin);
    return Error{ErrorKind::Usage,
                 path_ + ": token " + std::to_string(tokens[outside]) + " at position " +
                     std::to_string(header_.num_tokens + outside) +
                     " is outside the vocabulary of " + std::to_string(header_.vocab_size)};
  }
  const std::span<const std::byte> added = std::span(packed_).subspan(begin);
  payload_hash_->update(added);
  header_.num_tokens += static_cast<int64_t>(tokens.size());
  TRIREME_TRY_DONE(file_.write(added));
  size_t closed = 0;
  for (; packed_.size() - closed >= kTokenChunkBytes; closed += kTokenChunkBytes) {
    close_chunk(std::span(packed_).subspan(closed, kTokenChunkBytes));
  }
  packed_.erase(packed_.begin(), packed_.begin() + static_cast<std::ptrdiff_t>(closed));
  return Done{};
}

void TokenFileWriter::close_chunk(std::span<const std::byte> tokens) {
  chunk_hashes_.push_back(token_chunk_hash(static_cast<int64_t>(chunk_hashes_.size()), tokens));
}

Result<TokenFileHeader> TokenFileWriter::finish(const Totals& totals) {
  header_.num_documents = totals.num_documents;
  header_.text_bytes = totals.text_bytes;
  header_.payload_hash = payload_hash_->digest();
  if (!packed_.empty()) close_chunk(packed_);
  TRIREME_TRY_DONE(file_.write(std::as_bytes(std::span(chunk_hashes_))));
  std::array<std::byte, kTokenFileHeaderBytes> bytes;
  print_token_file_header(header_, bytes);
  TRIREME_TRY_DONE(file_.write_at(0, bytes));
  TRIREME_TRY_DONE(file_.commit());
  return header_;
}

}  // namespace trireme
