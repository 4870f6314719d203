#include "data/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/hash.h"
#include "data/token_source.h"

namespace trireme {
namespace {

// CR LF reveals a transfer that converted line ends, as in PNG.
constexpr char kMagic[8] = {'T', 'R', 'I', 'T', 'O', 'K', '\r', '\n'};
constexpr uint32_t kWithoutChunks = 1;  // versions of the format
constexpr uint32_t kWithChunks = 2;
constexpr uint32_t kWithLossMask = 3;
constexpr const char* kPrepareAgain = "prepare it again with `trireme data prepare`";

// The header as in the file; little-endian, like every machine that this runs on.
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

// Returns the largest token.
template <typename Token>
uint32_t widen(const std::byte* source, std::span<int32_t> out) {
  uint32_t greatest = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    Token token;
    std::memcpy(&token, source + i * sizeof token, sizeof token);
    out[i] = static_cast<int32_t>(token);
    greatest = std::max(greatest, uint32_t{token});
  }
  return greatest;
}

// Does the same for a file with a loss mask. If `marks` is true, a token that the loss leaves out
// becomes kUncountedTarget.
template <typename Token>
uint32_t widen_masked(const std::byte* source, std::span<int32_t> out, bool marks) {
  constexpr auto kMask = static_cast<Token>(Token{1} << (8 * sizeof(Token) - 1));
  uint32_t greatest = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    Token stored;
    std::memcpy(&stored, source + i * sizeof stored, sizeof stored);
    const auto token = static_cast<Token>(stored & ~kMask);
    const bool is_left_out = marks && (stored & kMask) != 0;
    out[i] = is_left_out ? kUncountedTarget : static_cast<int32_t>(token);
    greatest = std::max(greatest, uint32_t{token});
  }
  return greatest;
}

// Memory for one chunk. It is on the stack, because a step allocates nothing.
using ChunkBuffer = std::array<std::byte, kTokenChunkBytes>;

}  // namespace

int token_bytes_of(int64_t vocab_size, bool has_loss_mask) {
  return vocab_size <= (has_loss_mask ? 32768 : 65536) ? 2 : 4;
}

uint64_t token_chunk_hash(int64_t chunk, std::span<const std::byte> tokens) {
  return hash64(tokens, static_cast<uint64_t>(chunk));
}

int64_t TokenFileHeader::num_chunks() const {
  return (payload_bytes() + kTokenChunkBytes - 1) / kTokenChunkBytes;
}

int64_t TokenFileHeader::file_bytes() const {
  const int64_t table_bytes = has_chunk_checksums ? num_chunks() * int64_t{sizeof(uint64_t)} : 0;
  return kTokenFileHeaderBytes + payload_bytes() + table_bytes;
}

void print_token_file_header(const TokenFileHeader& header,
                             std::span<std::byte, kTokenFileHeaderBytes> bytes) {
  RawHeader raw{.magic = {},
                .version = header.has_loss_mask         ? kWithLossMask
                           : header.has_chunk_checksums ? kWithChunks
                                                        : kWithoutChunks,
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
  if (raw.version < kWithoutChunks || raw.version > kWithLossMask) {
    return damaged("token file version " + std::to_string(raw.version) +
                   " (byte 8); this program reads versions 1 to 3");
  }
  if (raw.header_hash != header_hash_of(raw)) {
    return damaged("the header (bytes 0 to 63) does not match its checksum");
  }
  if (raw.token_bytes != 2 && raw.token_bytes != 4) {
    return damaged("tokens of " + std::to_string(raw.token_bytes) + " bytes (byte 12), not 2 or 4");
  }
  const int64_t greatest_vocab = raw.token_bytes == 4           ? INT32_MAX
                                 : raw.version == kWithLossMask ? 32768
                                                                : 65536;
  if (raw.vocab_size == 0 || raw.vocab_size > greatest_vocab) {
    return damaged("a vocabulary of " + std::to_string(raw.vocab_size) +
                   " (byte 16) for tokens of " + std::to_string(raw.token_bytes) +
                   " bytes, at most " + std::to_string(greatest_vocab));
  }
  constexpr uint64_t kGreatest = std::numeric_limits<int64_t>::max();
  if (raw.num_documents > kGreatest || raw.text_bytes > kGreatest) {
    return damaged("the header's counts of documents and text bytes cannot be");
  }
  const TokenFileHeader header{.token_bytes = static_cast<int>(raw.token_bytes),
                               .vocab_size = raw.vocab_size,
                               .num_tokens = static_cast<int64_t>(raw.num_tokens),
                               .num_documents = static_cast<int64_t>(raw.num_documents),
                               .text_bytes = static_cast<int64_t>(raw.text_bytes),
                               .tokenizer_hash = raw.tokenizer_hash,
                               .payload_hash = raw.payload_hash,
                               .has_chunk_checksums = raw.version != kWithoutChunks,
                               .has_loss_mask = raw.version == kWithLossMask};
  // The first comparison limits the sizes in the second one to 63 bits.
  const bool fits = raw.num_tokens <= static_cast<uint64_t>(file_bytes) / raw.token_bytes;
  if (!fits || header.file_bytes() != file_bytes) {
    return damaged("the header tells of " + std::to_string(raw.num_tokens) + " tokens of " +
                   std::to_string(raw.token_bytes) + " bytes" +
                   (header.has_chunk_checksums ? " and their chunk checksums" : "") +
                   ", which does not agree with the file's " + std::to_string(file_bytes) +
                   " bytes: truncated or appended to");
  }
  return header;
}

TokenFile::TokenFile(InputFile file, const TokenFileHeader& header)
    : file_(std::move(file)),
      header_(header),
      verified_(std::make_unique<std::atomic<uint64_t>[]>(
          static_cast<size_t>(header.num_chunks() + 63) / 64)) {}

Result<TokenFile> TokenFile::open(const std::string& path, int64_t verified_at_open) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return Error{ErrorKind::Usage,
                 path +
                     ": no such token file: make it with `trireme data prepare`, or that of "
                     "configs/demo.toml with `make demo`"};
  }
  if (std::filesystem::is_directory(path, ignored)) {
    std::string names;
    for (const char* file : {"/train.tok", "/val.tok"}) {
      if (!std::filesystem::exists(path + file, ignored)) continue;
      names += (names.empty() ? "name " : " or ") + path + file;
    }
    if (names.empty()) names = "name a file that `trireme data prepare` has written";
    return usage(path + ": a folder, not a token file: " + names);
  }
  TRIREME_TRY(input, InputFile::open(path));
  return open(std::move(input), verified_at_open);
}

Result<TokenFile> TokenFile::open_named(const std::string& name, const OpenInput& open_input,
                                        int64_t verified_at_open) {
  if (!is_url(name)) return open(name, verified_at_open);
  TRIREME_TRY(input, trireme::open_named(name, open_input));
  return open(std::move(input), verified_at_open);
}

Result<TokenFile> TokenFile::open(InputFile input, int64_t verified_at_open) {
  std::array<std::byte, kTokenFileHeaderBytes> bytes;
  const auto start =
      std::span(bytes).first(static_cast<size_t>(std::min(input.bytes(), kTokenFileHeaderBytes)));
  TRIREME_TRY_DONE(input.read(0, start));
  auto header = parse_token_file_header(start, input.bytes());
  if (!header.ok()) return with_context(header.error(), input.path());
  TokenFile file(std::move(input), *header);
  if (header->file_bytes() < verified_at_open) TRIREME_TRY_DONE(file.verify());
  return file;
}

bool TokenFile::is_verified(int64_t chunk) const {
  const uint64_t bits = verified_[static_cast<size_t>(chunk / 64)].load(std::memory_order_relaxed);
  return (bits >> (chunk % 64) & 1) != 0;
}

void TokenFile::set_verified(int64_t chunk) const {
  verified_[static_cast<size_t>(chunk / 64)].fetch_or(uint64_t{1} << (chunk % 64),
                                                      std::memory_order_relaxed);
}

int64_t TokenFile::chunk_bytes(int64_t chunk) const {
  return std::min(kTokenChunkBytes, header_.payload_bytes() - chunk * kTokenChunkBytes);
}

Status TokenFile::read_chunk(int64_t chunk, std::span<std::byte> out) const {
  const int64_t begin = kTokenFileHeaderBytes + chunk * kTokenChunkBytes;
  TRIREME_TRY_DONE(file_.read(begin, out));
  if (!header_.has_chunk_checksums) return Done{};
  uint64_t stored = 0;
  const int64_t table = kTokenFileHeaderBytes + header_.payload_bytes();
  TRIREME_TRY_DONE(file_.read(table + chunk * int64_t{sizeof stored},
                              std::as_writable_bytes(std::span(&stored, 1))));
  const uint64_t hash = token_chunk_hash(chunk, out);
  if (hash == stored) return Done{};
  return damaged(path() + ": chunk " + std::to_string(chunk) + " (bytes " + std::to_string(begin) +
                 " to " + std::to_string(begin + static_cast<int64_t>(out.size()) - 1) +
                 ") has checksum " + hex64(hash) + ", the file says " + hex64(stored) +
                 ": the file is damaged; " + kPrepareAgain);
}

Result<const std::byte*> TokenFile::read_part(int64_t chunk, int64_t begin, int64_t length,
                                              std::span<std::byte> memory) const {
  if (header_.has_chunk_checksums && !is_verified(chunk)) {
    TRIREME_TRY_DONE(read_chunk(chunk, memory.first(static_cast<size_t>(chunk_bytes(chunk)))));
    set_verified(chunk);
    return static_cast<const std::byte*>(memory.data() + begin);
  }
  TRIREME_TRY_DONE(file_.read(kTokenFileHeaderBytes + chunk * kTokenChunkBytes + begin,
                              memory.first(static_cast<size_t>(length))));
  return static_cast<const std::byte*>(memory.data());
}

// convert(source, part) widens stored tokens into `part` and returns the largest token.
template <typename Convert>
void TokenFile::read_with(int64_t offset, std::span<int32_t> out, Convert&& convert) const {
  const int64_t count = static_cast<int64_t>(out.size());
  TRIREME_CHECK(offset >= 0 && count <= num_tokens() && offset <= num_tokens() - count,
                path() + ": tokens " + std::to_string(offset) + " and " + std::to_string(count) +
                    " more of " + std::to_string(num_tokens()));
  const int64_t token_bytes = header_.token_bytes;
  const int64_t tokens_per_chunk = kTokenChunkBytes / token_bytes;
  ChunkBuffer memory;
  while (!out.empty()) {
    const int64_t first = offset % tokens_per_chunk;
    const int64_t length = std::min(static_cast<int64_t>(out.size()), tokens_per_chunk - first);
    const auto source =
        read_part(offset / tokens_per_chunk, first * token_bytes, length * token_bytes, memory);
    if (!source.ok()) throw IoError(source.error().message);
    const auto part = out.first(static_cast<size_t>(length));
    const uint32_t greatest = convert(*source, part);
    if (greatest >= header_.vocab_size) {
      throw IoError(path() + ": token " + std::to_string(greatest) + " near position " +
                    std::to_string(offset) + ", outside the vocabulary of " +
                    std::to_string(header_.vocab_size) + ": the file is damaged; " + kPrepareAgain);
    }
    out = out.subspan(static_cast<size_t>(length));
    offset += length;
  }
}

void TokenFile::read(int64_t offset, std::span<int32_t> out) const {
  read_with(offset, out, [&](const std::byte* source, std::span<int32_t> part) {
    if (header_.has_loss_mask) {
      return header_.token_bytes == 2 ? widen_masked<uint16_t>(source, part, false)
                                      : widen_masked<uint32_t>(source, part, false);
    }
    return header_.token_bytes == 2 ? widen<uint16_t>(source, part) : widen<uint32_t>(source, part);
  });
}

void TokenFile::read_targets(int64_t offset, std::span<int32_t> out) const {
  if (!header_.has_loss_mask) return read(offset, out);
  read_with(offset, out, [&](const std::byte* source, std::span<int32_t> part) {
    return header_.token_bytes == 2 ? widen_masked<uint16_t>(source, part, true)
                                    : widen_masked<uint32_t>(source, part, true);
  });
}

void TokenFile::will_read(int64_t offset, int64_t count) const {
  if (!file_.is_elsewhere()) return;
  int64_t begin = offset * header_.token_bytes;
  int64_t end = begin + count * header_.token_bytes;
  const int64_t first = begin / kTokenChunkBytes, last = (end - 1) / kTokenChunkBytes;
  if (header_.has_chunk_checksums && !(is_verified(first) && is_verified(last))) {
    // Chunks that are read for the first time are read as a whole, with their checksums.
    begin = first * kTokenChunkBytes;
    end = std::min((last + 1) * kTokenChunkBytes, header_.payload_bytes());
    constexpr int64_t kHashBytes = sizeof(uint64_t);
    file_.will_read(kTokenFileHeaderBytes + header_.payload_bytes() + first * kHashBytes,
                    (last - first + 1) * kHashBytes);
  }
  file_.will_read(kTokenFileHeaderBytes + begin, end - begin);
}

Status TokenFile::verify() const {
  Hasher64 payload;
  ChunkBuffer buffer;
  for (int64_t chunk = 0; chunk < header_.num_chunks(); ++chunk) {
    const std::span<std::byte> bytes(buffer.data(), static_cast<size_t>(chunk_bytes(chunk)));
    TRIREME_TRY_DONE(read_chunk(chunk, bytes));
    payload.update(bytes);
    set_verified(chunk);
  }
  const uint64_t hash = payload.digest();
  if (hash == header_.payload_hash) return Done{};
  return damaged(path() + ": the tokens have checksum " + hex64(hash) + ", the header says " +
                 hex64(header_.payload_hash) + ": damaged; " + kPrepareAgain);
}

}  // namespace trireme
