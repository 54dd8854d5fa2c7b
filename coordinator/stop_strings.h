// Ends a stream of text at the first stop string, holding back what may be the beginning of one.
#pragma once

#include <string>
#include <vector>

namespace colibri {

class StopStrings {
 public:
  // Empty strings are ignored.
  explicit StopStrings(std::vector<std::string> stops);

  // Takes new text, returns what is certain to come before any stop string.
  std::string push(const std::string& text);
  // What is still held back; call when the sequence ended for another reason.
  std::string finish();
  // A stop string was found: everything from it on is dropped.
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace colibri
