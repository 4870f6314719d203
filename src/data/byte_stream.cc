#include "data/byte_stream.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/file.h"
#include "base/input_limits.h"

namespace trireme {
namespace {

Error unreadable(const std::string& why) { return {ErrorKind::Damaged, why}; }

class FileStream : public InputStream {
 public:
  explicit FileStream(std::FILE* file) : file_(file) {
    std::setvbuf(file, nullptr, _IONBF, 0);  // blocks are read directly into the caller's memory
  }
  Result<size_t> read(std::span<char> out) override {
    const size_t got = std::fread(out.data(), 1, out.size(), file_.get());
    if (std::ferror(file_.get()) != 0)
      return unreadable(fmt::format("cannot read: {}", std::strerror(errno)));
    return got;
  }
  Status skip(int64_t bytes) override {
    if (::fseeko(file_.get(), bytes, SEEK_CUR) == 0) return Done{};
    return unreadable(fmt::format("cannot read on: {}", std::strerror(errno)));
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

// The bytes of a file that is not on this machine.
class NamedStream : public InputStream {
 public:
  explicit NamedStream(InputFile file) : file_(std::move(file)) {}

  Result<size_t> read(std::span<char> out) override {
    const auto part = out.first(size_t(std::min(int64_t(out.size()), file_.bytes() - offset_)));
    TRIREME_TRY_DONE(file_.read(offset_, std::as_writable_bytes(part)));
    offset_ += int64_t(part.size());
    return part.size();
  }
  Status skip(int64_t bytes) override {
    if (bytes > file_.bytes() - offset_) return unreadable("ends before the place to read");
    offset_ += bytes;
    return Done{};
  }

 private:
  const InputFile file_;
  int64_t offset_ = 0;
};

// Decompresses what it reads from another stream. A file may contain several compressed parts.
class UnpackingStream : public InputStream {
 public:
  explicit UnpackingStream(std::unique_ptr<InputStream> packed) : packed_(std::move(packed)) {}

  Result<size_t> read(std::span<char> out) override {
    size_t filled = 0;
    while (filled < out.size()) {
      if (unread_.empty() && !at_end_) TRIREME_TRY_DONE(refill());
      if (unread_.empty() && !in_part_) break;
      const size_t packed_bytes = unread_.size();
      TRIREME_TRY(got, unpack(out.subspan(filled)));
      filled += got;
      num_unpacked_ += static_cast<int64_t>(got);
      TRIREME_TRY_DONE(check_ratio());
      if (in_part_ && got == 0 && unread_.size() == packed_bytes && at_end_) {
        return unreadable(
            fmt::format("ends inside its compressed data, at byte {}: truncated", position()));
      }
    }
    return filled;
  }

  Status skip(int64_t bytes) override {
    std::vector<char> passed(size_t{1} << 16);
    while (bytes > 0) {
      const size_t wanted =
          static_cast<size_t>(std::min<int64_t>(bytes, static_cast<int64_t>(passed.size())));
      TRIREME_TRY(got, read(std::span(passed).first(wanted)));
      if (got == 0) return unreadable("has become shorter while it was read");
      bytes -= static_cast<int64_t>(got);
    }
    return Done{};
  }

 protected:
  // Decompresses a part of unread_ into `out`. Updates whether a compressed part is still open.
  virtual Result<size_t> unpack(std::span<char> out) = 0;

  Error damaged(const char* why) const {
    return unreadable(
        fmt::format("its compressed data are damaged near byte {}: {}", position(), why));
  }

  std::span<char> unread_;
  bool in_part_ = true;  // a part is open; true at first, because an empty file has no part

 private:
  Status refill() {
    TRIREME_TRY(got, packed_->read(buffer_));
    num_read_ += static_cast<int64_t>(got);
    unread_ = std::span(buffer_).first(got);
    at_end_ = got < buffer_.size();
    return Done{};
  }
  // A few bytes that decompress to terabytes are an attack on disk and memory.
  Status check_ratio() const {
    const bool is_sound = num_unpacked_ <= limits::kUnpackedFreeBytes ||
                          num_unpacked_ / limits::kUnpackedRatio <= position();
    if (is_sound) return Done{};
    return unreadable(
        fmt::format("decompresses to more than {} times its size ({} bytes from {}), which no text "
                    "does; if this "
                    "is correct, decompress it first and read the resulting file",
                    limits::kUnpackedRatio, num_unpacked_, position()));
  }
  int64_t position() const { return num_read_ - static_cast<int64_t>(unread_.size()); }

  std::unique_ptr<InputStream> packed_;
  std::vector<char> buffer_ = std::vector<char>(size_t{1} << 18);
  int64_t num_read_ = 0;
  int64_t num_unpacked_ = 0;
  bool at_end_ = false;
};

class GzipStream : public UnpackingStream {
 public:
  explicit GzipStream(std::unique_ptr<InputStream> packed) : UnpackingStream(std::move(packed)) {
    constexpr int kGzipWindow = 15 + 16;
    TRIREME_CHECK(inflateInit2(&zlib_, kGzipWindow) == Z_OK, "zlib has no memory");
  }
  ~GzipStream() override { inflateEnd(&zlib_); }

 protected:
  Result<size_t> unpack(std::span<char> out) override {
    if (!in_part_) inflateReset(&zlib_);
    in_part_ = true;
    zlib_.next_in = reinterpret_cast<Bytef*>(unread_.data());
    zlib_.avail_in = static_cast<uInt>(unread_.size());
    zlib_.next_out = reinterpret_cast<Bytef*>(out.data());
    zlib_.avail_out = static_cast<uInt>(std::min<size_t>(out.size(), UINT32_MAX));
    const uInt room = zlib_.avail_out;
    const int result = inflate(&zlib_, Z_NO_FLUSH);
    unread_ = unread_.last(zlib_.avail_in);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      return damaged(zlib_.msg == nullptr ? "not gzip" : zlib_.msg);
    }
    if (result == Z_STREAM_END) in_part_ = false;
    return room - zlib_.avail_out;
  }

 private:
  z_stream zlib_{};
};

class ZstdStream : public UnpackingStream {
 public:
  explicit ZstdStream(std::unique_ptr<InputStream> packed)
      : UnpackingStream(std::move(packed)), zstd_(ZSTD_createDStream()) {
    // The frame declares how much memory its window takes.
    ZSTD_DCtx_setParameter(zstd_.get(), ZSTD_d_windowLogMax, limits::kZstdWindowLog);
  }

 protected:
  Result<size_t> unpack(std::span<char> out) override {
    // The library decompresses a frame that it has as a whole in one pass, with other checks than
    // for a frame in pieces. The first byte is passed separately, so that the checks do not depend
    // on the block size.
    ZSTD_inBuffer in{unread_.data(),
                     between_frames_ ? std::min<size_t>(unread_.size(), 1) : unread_.size(), 0};
    ZSTD_outBuffer unpacked{out.data(), out.size(), 0};
    const size_t left = ZSTD_decompressStream(zstd_.get(), &unpacked, &in);
    if (ZSTD_getErrorCode(left) == ZSTD_error_frameParameter_windowTooLarge) {
      return unreadable(
          fmt::format("is compressed with a window of more than {} MiB; decompress it with `zstd "
                      "-d --long=31 -c` "
                      "into a pipe and read \"-\"",
                      (int64_t{1} << limits::kZstdWindowLog) >> 20));
    }
    if (ZSTD_isError(left)) return damaged(ZSTD_getErrorName(left));
    unread_ = unread_.subspan(in.pos);
    in_part_ = left != 0;
    between_frames_ = !in_part_;
    return unpacked.pos;
  }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  std::unique_ptr<ZSTD_DStream, Free> zstd_;
  bool between_frames_ = true;  // a new frame begins with the next byte
};

}  // namespace

Compression compression_of(const std::string& path) {
  return path.ends_with(".gz")    ? Compression::Gzip
         : path.ends_with(".zst") ? Compression::Zstd
                                  : Compression::None;
}

std::unique_ptr<InputStream> unpacked_stream(std::unique_ptr<InputStream> packed,
                                             Compression compression) {
  if (compression == Compression::Gzip) return std::make_unique<GzipStream>(std::move(packed));
  if (compression == Compression::Zstd) return std::make_unique<ZstdStream>(std::move(packed));
  return packed;
}

Result<std::unique_ptr<InputStream>> open_byte_stream(const std::string& path,
                                                      Compression compression,
                                                      const OpenInput& open_input) {
  if (is_url(path)) {
    TRIREME_TRY(named, open_named(path, open_input));
    return unpacked_stream(std::make_unique<NamedStream>(std::move(named)), compression);
  }
  int fd = path == "-" ? ::dup(STDIN_FILENO) : -1;
  if (path != "-") {
    TRIREME_TRY(opened, open_regular_file(path));
    fd = opened;
  }
  std::FILE* file = ::fdopen(fd, "rb");
  if (file == nullptr) return unreadable(std::strerror(errno));
  return unpacked_stream(std::make_unique<FileStream>(file), compression);
}

}  // namespace trireme
