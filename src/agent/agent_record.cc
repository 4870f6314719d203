#include "agent/agent_record.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "agent/agent_wire.h"
#include "base/json_text.h"

namespace trireme {
namespace {

// The first character of a line says what it is. An error has its kind as a digit after that.
constexpr char kFailure = 'F';
constexpr char kEnd = 'E';
constexpr char kError = 'X';

}  // namespace

Result<AgentRecord> AgentRecord::make() {
  const int fd = memfd_create("trireme-record", MFD_CLOEXEC);
  if (fd >= 0) return AgentRecord(fd);
  return Error{ErrorKind::Runtime, fmt::format("memfd_create: {}", std::strerror(errno))};
}

AgentRecord::~AgentRecord() {
  if (fd_ >= 0) ::close(fd_);
}

// A line begins with its break, so that it does not continue one at which an agent was killed.
void AgentRecord::add_line(const std::string& line) const {
  const std::string text = "\n" + line;
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t bytes = ::write(fd_, text.data() + done, text.size() - done);
    if (bytes < 0 && errno != EINTR) return;
    if (bytes > 0) done += size_t(bytes);
  }
}

std::vector<std::string> AgentRecord::lines() const {
  struct stat stat {};
  if (::fstat(fd_, &stat) != 0) return {};
  std::string text(size_t(stat.st_size), '\0');
  const ssize_t bytes = ::pread(fd_, text.data(), text.size(), 0);
  text.resize(size_t(std::max<ssize_t>(bytes, 0)));
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void AgentRecord::add(const JobFailure& failure) const { add_line(kFailure + to_json(failure)); }

void AgentRecord::set_end(const Result<RanksEnd>& end) const {
  if (end.ok()) return add_line(kEnd + to_json(*end));
  const std::string message = lenient_json_text(nlohmann::json(end.error().message));
  add_line(fmt::format("{}{}{}", kError, int(end.error().kind), message));
}

std::vector<JobFailure> AgentRecord::failures() const {
  std::vector<JobFailure> failures;
  for (const std::string& line : lines()) {
    if (line.empty() || line.front() != kFailure) continue;
    if (auto failure = check_failure(line.substr(1)); failure.ok()) {
      failures.push_back(std::move(*failure));
    }
  }
  return failures;
}

std::optional<Result<RanksEnd>> AgentRecord::end() const {
  for (const std::string& line : lines()) {
    if (line.size() > 1 && line.front() == kEnd) {
      if (auto end = check_end(line.substr(1)); end.ok()) return end;
    }
    if (line.size() > 2 && line.front() == kError) {
      const nlohmann::json message = parse_json_or_discard(line.substr(2));
      if (!message.is_string()) continue;
      return Result<RanksEnd>(
          Error{static_cast<ErrorKind>(line[1] - '0'), message.get<std::string>()});
    }
  }
  return std::nullopt;
}

}  // namespace trireme
