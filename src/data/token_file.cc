#include "data/token_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/hash.h"

namespace trireme {
namespace {

// CR LF shows a transfer that translated line ends, as in PNG.
constexpr char kMagic[8] = {'T', 'R', 'I', 'T', 'O', 'K', '\r', '\n'};
constexpr uint32_t kTokenFileVersion = 1;

// As in the file; little-endian like every machine this runs on.
struct RawHeader {
  char magic[8];
  uint32_t version;
  uint32_t token_bytes;
  uint32_t vocab_size;
  uint32_t header_hash;  // low half of XXH3-64 of the header with zero here
  uint64_t num_tokens;
  uint64_t num_documents;
  uint64_t text_bytes;
  uint64_t tokenizer_hash;
  uint64_t payload_hash;
};
static_assert(sizeof(RawHeader) == kTokenFileHeaderBytes);
static_assert(std::endian::native == std::endian::little);

uint32_t header_hash_of(RawHeader raw) {
  raw.header_hash = 0;
  return static_cast<uint32_t>(hash64(std::as_bytes(std::span(&raw, 1))));
}

// Returns the greatest token.
template <typename Token>
uint32_t widen(const std::byte* source, std::span<int32_t> out) {
  const Token* tokens = reinterpret_cast<const Token*>(source);
  uint32_t greatest = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<int32_t>(tokens[i]);
    greatest = std::max(greatest, uint32_t{tokens[i]});
  }
  return greatest;
}

}  // namespace

int token_bytes_of(int64_t vocab_size) { return vocab_size <= 65536 ? 2 : 4; }

void print_token_file_header(const TokenFileHeader& header,
                             std::span<std::byte, kTokenFileHeaderBytes> bytes) {
  RawHeader raw{.magic = {},
                .version = kTokenFileVersion,
                .token_bytes = static_cast<uint32_t>(header.token_bytes),
                .vocab_size = header.vocab_size,
                .header_hash = 0,
                .num_tokens = static_cast<uint64_t>(header.num_tokens),
                .num_documents = static_cast<uint64_t>(header.num_documents),
                .text_bytes = static_cast<uint64_t>(header.text_bytes),
                .tokenizer_hash = header.tokenizer_hash,
                .payload_hash = header.payload_hash};
  std::memcpy(raw.magic, kMagic, sizeof kMagic);
  raw.header_hash = header_hash_of(raw);
  std::memcpy(bytes.data(), &raw, sizeof raw);
}

Result<TokenFileHeader> parse_token_file_header(std::span<const std::byte> bytes,
                                                int64_t file_bytes) {
  if (file_bytes == 0) return damaged("the file is empty");
  if (bytes.size() < sizeof(RawHeader)) {
    return damaged("the file has " + std::to_string(file_bytes) + " bytes, a token file's header " +
                   std::to_string(kTokenFileHeaderBytes));
  }
  RawHeader raw;
  std::memcpy(&raw, bytes.data(), sizeof raw);
  if (std::memcmp(raw.magic, kMagic, sizeof kMagic) != 0) {
    return damaged("not a token file (byte 0); make one with `trireme data prepare`");
  }
  if (raw.version != kTokenFileVersion) {
    return damaged("token file version " + std::to_string(raw.version) + " (byte 8); this is for " +
                   std::to_string(kTokenFileVersion));
  }
  if (raw.header_hash != header_hash_of(raw)) {
    return damaged("the header (bytes 0 to 63) does not match its checksum");
  }
  if (raw.token_bytes != 2 && raw.token_bytes != 4) {
    return damaged("tokens of " + std::to_string(raw.token_bytes) + " bytes (byte 12), not 2 or 4");
  }
  const int64_t greatest_vocab = raw.token_bytes == 2 ? 65536 : INT32_MAX;
  if (raw.vocab_size == 0 || raw.vocab_size > greatest_vocab) {
    return damaged("a vocabulary of " + std::to_string(raw.vocab_size) +
                   " (byte 16) for tokens of " + std::to_string(raw.token_bytes) +
                   " bytes, at most " + std::to_string(greatest_vocab));
  }
  const uint64_t payload_bytes = static_cast<uint64_t>(file_bytes - kTokenFileHeaderBytes);
  if (payload_bytes % raw.token_bytes != 0 || payload_bytes / raw.token_bytes != raw.num_tokens) {
    return damaged("the header tells of " + std::to_string(raw.num_tokens) + " tokens of " +
                   std::to_string(raw.token_bytes) + " bytes, the file has " +
                   std::to_string(payload_bytes) + " bytes for them: truncated or appended to");
  }
  constexpr uint64_t kGreatest = std::numeric_limits<int64_t>::max();
  if (raw.num_documents > kGreatest || raw.text_bytes > kGreatest) {
    return damaged("the header's counts of documents and text bytes cannot be");
  }
  return TokenFileHeader{.token_bytes = static_cast<int>(raw.token_bytes),
                         .vocab_size = raw.vocab_size,
                         .num_tokens = static_cast<int64_t>(raw.num_tokens),
                         .num_documents = static_cast<int64_t>(raw.num_documents),
                         .text_bytes = static_cast<int64_t>(raw.text_bytes),
                         .tokenizer_hash = raw.tokenizer_hash,
                         .payload_hash = raw.payload_hash};
}

TokenFile::TokenFile(std::string path, const TokenFileHeader& header, MappedFile map)
    : path_(std::move(path)), header_(header), map_(std::move(map)) {}

Result<TokenFile> TokenFile::open(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return Error{ErrorKind::Usage,
                 path +
                     ": no such token file (data.train and data.val name them): make it with "
                     "`trireme data prepare`, or that of configs/demo.toml with `make demo`"};
  }
  TRIREME_TRY(map, MappedFile::open(path));
  const int64_t file_bytes = static_cast<int64_t>(map.bytes().size());
  auto header = parse_token_file_header(map.bytes(), file_bytes);
  if (!header.ok()) return with_context(header.error(), path);
  TokenFile file(path, *header, std::move(map));
  if (file_bytes < kVerifiedAtOpen) TRIREME_TRY_DONE(file.verify());
  return file;
}

void TokenFile::read(int64_t offset, std::span<int32_t> out) const {
  const int64_t count = static_cast<int64_t>(out.size());
  TRIREME_CHECK(offset >= 0 && count <= num_tokens() && offset <= num_tokens() - count,
                path_ + ": tokens " + std::to_string(offset) + " and " + std::to_string(count) +
                    " more of " + std::to_string(num_tokens()));
  const std::byte* source =
      map_.bytes().data() + kTokenFileHeaderBytes + offset * header_.token_bytes;
  const uint32_t greatest =
      header_.token_bytes == 2 ? widen<uint16_t>(source, out) : widen<uint32_t>(source, out);
  if (greatest >= header_.vocab_size && count > 0) {
    throw IoError(path_ + ": token " + std::to_string(greatest) + " near position " +
                  std::to_string(offset) + ", outside the vocabulary of " +
                  std::to_string(header_.vocab_size) +
                  ": the file is damaged; prepare it again with `trireme data prepare`");
  }
}

Status TokenFile::verify() const {
  const uint64_t hash = hash64(map_.bytes().subspan(kTokenFileHeaderBytes));
  if (hash == header_.payload_hash) return Done{};
  return damaged(path_ + ": the tokens have checksum " + hex64(hash) + ", the header says " +
                 hex64(header_.payload_hash) +
                 ": damaged; prepare it again with `trireme data prepare`");
}

}  // namespace trireme
