#include "model/convert.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/units.h"
#include "model/container.h"
#include "model/convert_journal.h"
#include "model/convert_plan.h"
#include "model/convert_source.h"
#include "model/convert_space.h"
#include "model/convert_writer.h"
#include "model/output_file.h"

namespace colibri {
namespace {

namespace fs = std::filesystem;
// How much may be written until it is made durable.
constexpr uint64_t kSyncBytes = 1 << 30;
constexpr auto kLookAgain = std::chrono::milliseconds(200);

// The names beside a target.
struct Places {
  fs::path target, partial, journal, stand_ins;
};

Places places_of(const fs::path& target) {
  const std::string name = target.string();
  return {target, name + ".partial", name + ".journal", name + ".source"};
}

// What cannot be looked at is met by whoever opens it.
bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string gb(uint64_t bytes) { return format_bytes(static_cast<int64_t>(bytes)); }

std::string describe(const ConversionOptions& options) {
  return options.source.string() + " with --weights " + to_string(options.formats.experts) +
         " --dense-weights " + to_string(options.formats.dense);
}

// One conversion, from the moment that its journal is locked.
class Conversion {
 public:
  Conversion(const ConversionOptions& options, const ConversionHooks& hooks, const Places& places,
             ConvertJournal& journal, ThreadPool& pool)
      : options_(options),
        hooks_(hooks),
        places_(places),
        journal_(journal),
        pool_(pool),
        source_(options.source, places.stand_ins),
        plan_(plan_conversion(source_.checkpoint(), options.formats)),
        is_done_(plan_.blobs.size(), 0) {}

  ConversionResult run() {
    if (options_.consume) source_.check_may_consume();
    check_resumes();
    check_space();
    if (!journal_.has_begun()) journal_.begin(plan_.identity, describe(options_));
    OutputFile file(places_.partial);
    BlobWriter writer(source_.checkpoint(), plan_, file);
    take_over(writer);
    if (hooks_.on_start) hooks_.on_start(plan_.weight_bytes, resumed_bytes_);
    count_blobs_left();
    write_all(writer, file);
    finish(file);
    return {plan_.index.file_bytes, resumed_bytes_};
  }

 private:
  void check_resumes() const {
    if (!journal_.has_begun()) {
      if (!is_there(places_.partial)) return;
      fail(ErrorKind::kInput, places_.partial.string(), ": is there without its journal ",
           places_.journal.string(), "; remove it, or choose another --out");
    }
    if (journal_.identity() != plan_.identity) {
      fail(ErrorKind::kInput, places_.partial.string(), ": holds an unfinished conversion of ",
           journal_.description(), ", which is not this one (", describe(options_),
           "), or the model has changed since; give the same model and options to go on, or remove "
           "the file and ",
           places_.journal.string(), " to begin anew");
    }
    if (is_there(places_.partial) || journal_.blobs().empty()) return;
    fail(ErrorKind::kInput, places_.journal.string(), ": says that ", journal_.blobs().size(),
         " parts are written, but ", places_.partial.string(), " is not there; remove it",
         is_there(places_.stand_ins) ? " (source files that were consumed are lost)" : "",
         " to begin anew");
  }

  std::vector<uint64_t> freed_bytes() const {
    std::vector<uint64_t> freed;
    for (int file = 0; options_.consume && file < source_.num_files(); ++file) {
      freed.push_back(bytes_freed_by_removing(source_.file(file), places_.target));
    }
    return freed;
  }

  uint64_t free_bytes() const {
    return hooks_.free_bytes ? hooks_.free_bytes() : free_disk_bytes(places_.target);
  }

  void check_space() const {
    std::vector<bool> done(plan_.blobs.size(), false);
    for (const BlobRecord& record : journal_.blobs()) {
      if (record.blob_idx < done.size()) done[record.blob_idx] = true;
    }
    const uint64_t need = needed_bytes(plan_, done, freed_bytes());
    const uint64_t has = free_bytes();
    if (need + options_.min_free_bytes <= has) return;
    fail(ErrorKind::kEnvironment, places_.target.string(), ": the disk has ", gb(has),
         " free; writing takes ", gb(need), " more and --min-free-gb leaves ",
         gb(options_.min_free_bytes), "; free ", gb(need + options_.min_free_bytes - has),
         ", choose another disk for --out",
         options_.consume ? "" : ", remove source files on the way with --consume",
         ", or use a smaller --weights");
  }

  // What was written before. Only what is not durable for certain is read again.
  void take_over(BlobWriter& writer) {
    const std::vector<BlobRecord> records = journal_.blobs();
    std::vector<char> is_good(records.size(), 1);
    pool_.run(static_cast<int64_t>(records.size()), [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      const BlobRecord& record = records[at];
      is_good[at] = record.blob_idx < plan_.blobs.size() &&
                    (at < journal_.num_durable() ||
                     writer.is_written(plan_.blobs[record.blob_idx], record.checksums));
    });
    for (size_t i = 0; i < records.size(); ++i) {
      if (is_good[i] != 0) keep(records[i]);
    }
    for (size_t i = 0; i < is_done_.size(); ++i) {
      if (is_done_[i] != 0) resumed_bytes_ += plan_.blobs[i].size_bytes;
    }
  }

  void keep(const BlobRecord& record) {
    const ConvertBlob& blob = plan_.blobs[record.blob_idx];
    is_done_[record.blob_idx] = 1;
    for (size_t i = 0; i < blob.num_tensors; ++i) {
      plan_.index.tensors[blob.first_tensor + i].checksum = record.checksums[i];
    }
  }

  void count_blobs_left() {
    blobs_left_.assign(static_cast<size_t>(source_.num_files()), 0);
    for (size_t i = 0; i < plan_.blobs.size(); ++i) {
      if (is_done_[i] != 0) continue;
      for (const int file : plan_.blobs[i].source_files) {
        ++blobs_left_[static_cast<size_t>(file)];
        if (!source_.is_consumed(file)) continue;
        fail(ErrorKind::kInput, source_.file(file).string(), ": was consumed, but ",
             places_.partial.string(), " does not hold all of it; download the file again, remove ",
             places_.stand_ins.string(), " and run the same command");
      }
    }
  }

  void write_all(BlobWriter& writer, OutputFile& file) {
    if (options_.consume) consume_finished(file);
    pool_.run(static_cast<int64_t>(plan_.blobs.size()), [&](int64_t i) {
      const auto idx = static_cast<size_t>(i);
      if (is_done_[idx] != 0 || has_failed_) return;
      try {
        write_one(writer, file, idx);
      } catch (...) {
        has_failed_ = true;
        throw;
      }
    });
  }

  void write_one(BlobWriter& writer, OutputFile& file, size_t idx) {
    const ConvertBlob& blob = plan_.blobs[idx];
    wait_for_space(blob.size_bytes);
    const BlobChecksums checksums = writer.write(blob, [this](uint64_t bytes) {
      if (hooks_.on_bytes) hooks_.on_bytes(bytes);
      stop_if_wanted();
    });
    const std::lock_guard lock(mutex_);
    const BlobRecord record{static_cast<uint32_t>(idx), checksums};
    journal_.add_blob(record);
    keep(record);
    unsynced_bytes_ += blob.size_bytes;
    bool is_file_finished = false;
    for (const int source_file : blob.source_files) {
      is_file_finished |= --blobs_left_[static_cast<size_t>(source_file)] == 0;
    }
    if (options_.consume && is_file_finished) return consume_finished(file);
    if (unsynced_bytes_ >= kSyncBytes) make_durable(file);
  }

  void make_durable(OutputFile& file) {
    const size_t recorded = journal_.blobs().size();
    file.sync();
    journal_.mark_durable(recorded);
    unsynced_bytes_ = 0;
  }

  void consume_finished(OutputFile& file) {
    make_durable(file);
    for (int source_file = 0; source_file < source_.num_files(); ++source_file) {
      if (blobs_left_[static_cast<size_t>(source_file)] > 0) continue;
      if (source_.is_consumed(source_file) && !is_there(source_.file(source_file))) continue;
      source_.consume(source_file);
    }
  }

  void stop_if_wanted() const {
    if (!hooks_.wants_stop || !hooks_.wants_stop()) return;
    fail(ErrorKind::kEnvironment, "stopped as asked; ", places_.partial.string(),
         " is kept: run the same command again to go on");
  }

  void wait_for_space(uint64_t bytes) {
    const uint64_t want = bytes + options_.min_free_bytes;
    bool has_said = false;
    for (uint64_t has = free_bytes(); has < want && !has_failed_; has = free_bytes()) {
      if (!is_waiting_.exchange(true)) {
        has_said = true;
        say("waiting: the disk of " + places_.target.string() + " has " + gb(has) + " free, want " +
            gb(want) + " (--min-free-gb); free some, or stop and go on later");
      }
      stop_if_wanted();
      std::this_thread::sleep_for(kLookAgain);
    }
    if (has_said) is_waiting_ = false;
    stop_if_wanted();
  }

  void say(const std::string& text) const {
    if (hooks_.say) hooks_.say(text);
  }

  // Texts, index and header come last: without them nothing takes the file for a container.
  void finish(OutputFile& file) {
    for (size_t i = 0; i < plan_.texts.size(); ++i) {
      file.write(plan_.index.texts[i].offset_bytes, plan_.texts[i].data(), plan_.texts[i].size());
    }
    const std::string front = encode_container_front(plan_.index);
    file.write(0, front.data(), front.size());
    file.truncate(plan_.index.file_bytes);
    file.sync();
    journal_.mark_complete(
        parse_container_header(front, plan_.index.file_bytes, places_.partial.string())
            .index_checksum);
  }

  const ConversionOptions& options_;
  const ConversionHooks& hooks_;
  const Places& places_;
  ConvertJournal& journal_;
  ThreadPool& pool_;
  ConvertSource source_;
  ConvertPlan plan_;
  std::vector<char> is_done_;  // of each blob
  uint64_t resumed_bytes_ = 0;
  std::atomic<bool> has_failed_{false}, is_waiting_{false};
  std::mutex mutex_;                // of what follows, of the journal and of checksums in the plan
  std::vector<size_t> blobs_left_;  // of each source file
  uint64_t unsynced_bytes_ = 0;
};

[[noreturn]] void fail_target_exists(const fs::path& target) {
  fail(ErrorKind::kInput, target.string(),
       fs::is_directory(target) ? ": is a directory, want the name of a new file"
                                : ": exists already; remove it, or choose another --out");
}

// Whether `path` is the finished file that the journal tells of.
bool is_finished_file(const fs::path& path, const ConvertJournal& journal) {
  if (!journal.complete() || !fs::is_regular_file(path)) return false;
  try {
    const std::string front = encode_container_front(read_container_index(path));
    return parse_container_header(front, fs::file_size(path), path.string()).index_checksum ==
           *journal.complete();
  } catch (const Error&) {
    return false;
  }
}

// From here on the target is there.
void put_in_place(const Places& places) {
  const int failed = ::renameat2(AT_FDCWD, places.partial.c_str(), AT_FDCWD, places.target.c_str(),
                                 RENAME_NOREPLACE);
  if (failed != 0 && errno == EEXIST) fail_target_exists(places.target);
  if (failed != 0) fs::rename(places.partial, places.target);  // no such flag on this file system
  sync_directory(places.target.parent_path());
}

void remove_traces(const Places& places) {
  std::error_code ignored;
  fs::remove_all(places.stand_ins, ignored);
  fs::remove(places.journal, ignored);
}

}  // namespace

ConversionResult convert_checkpoint(const ConversionOptions& options, const ConversionHooks& hooks,
                                    ThreadPool& pool) {
  const Places places = places_of(options.target);
  if (is_there(places.target) && !is_there(places.journal)) fail_target_exists(places.target);
  ConvertJournal journal(places.journal);
  ConversionResult result;
  if (is_there(places.target)) {
    if (!is_finished_file(places.target, journal)) fail_target_exists(places.target);
  } else {
    if (!is_finished_file(places.partial, journal)) {
      result = Conversion(options, hooks, places, journal, pool).run();
    }
    put_in_place(places);
  }
  remove_traces(places);
  if (result.file_bytes == 0) {  // an earlier run had written all of it
    result.file_bytes = result.resumed_bytes = fs::file_size(places.target);
  }
  return result;
}

}  // namespace colibri
