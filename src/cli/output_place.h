#pragma once

#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "base/file_lock.h"
#include "base/result.h"
#include "store/store_path.h"

namespace trireme {

// A command makes the result for store://NAME/PATH in outputs/NAME/PATH of this machine, before the
// store has it. The hidden file .PATH.for-store beside it says that commands have made what lies
// there, and whether it is complete. So files of the user are neither stored nor removed. While the
// place is held, a lock keeps other commands out.
class OutputPlace {
 public:
  // What an earlier command has left there is removed, unless `resumes` is true and it is
  // unfinished. If somebody else has made what lies there, that is a usage error.
  static Result<std::unique_ptr<OutputPlace>> take(const StoreUrl& url, bool resumes,
                                                   std::ostream& err);
  // Removes what holds nothing: an empty result, and the folders above it that are empty then.
  ~OutputPlace();
  OutputPlace(const OutputPlace&) = delete;
  OutputPlace& operator=(const OutputPlace&) = delete;

  const std::string& path() const { return path_; }
  // Notes that the command has succeeded, so that nothing resumes from this result.
  Status set_complete();
  void remove_result();

 private:
  explicit OutputPlace(const StoreUrl& url);
  Status take_over(bool resumes, const std::string& url, std::ostream& err);
  std::string beside(const char* ending) const;

  std::string path_;
  std::optional<FileLock> lock_;
};

}  // namespace trireme
