// Texts on their way into a model: files and the model's own tokenizer.
#pragma once

#include <memory>
#include <string>

#include "model/checkpoint.h"
#include "model/tokenizer.h"

namespace colibri {

// All of a text file. Fails with kInput, naming the option, when it cannot be read.
std::string read_text_of(const std::string& path, const std::string& option);

// The tokenizer of the model's own files. Fails with kInput when it is missing, wrong, or has ids
// that the model's vocabulary has not.
std::shared_ptr<const Tokenizer> load_tokenizer(const Checkpoint& checkpoint);

}  // namespace colibri
