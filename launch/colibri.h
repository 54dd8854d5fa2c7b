// colibri in another program: a model that is loaded once and answers many threads at once.
// C99 and C++. Link libcolibri.so, or libcolibri.a with what pkg-config --static names.
/*
    colibri_options options = {.struct_size = sizeof options};
    options.model = "configs/models/demo";
    colibri_engine *engine = NULL;
    if (colibri_init(&options, &engine, NULL) != COLIBRI_OK) return 1;
    colibri_request request = {.struct_size = sizeof request};
    request.prompt = "ROMEO:";
    colibri_result result = {.struct_size = sizeof result};
    if (colibri_infer(engine, &request, &result, NULL) == COLIBRI_OK) puts(result.text);
    colibri_result_free(&result);
    colibri_free(engine);
*/

// Structs. The first field of each is its size: set it to sizeof, and every other byte to zero, or
// call colibri_default_*. A program built with an older, shorter struct goes on working: fields it
// does not have take their defaults, or are not written. Of a longer struct all that this version
// does not know must be zero. Every field is eight bytes wide.
//
// Errors. Functions return a colibri_code; text goes into the colibri_error they were given, which
// may be NULL. Nothing is thrown, printed, or left in a global, and no call ends the process. Every
// pointer may be NULL: where something is needed, that is COLIBRI_INPUT.
//
// Threads. All functions may be called from any thread at any time, but two: colibri_free ends the
// engine's life, so no call begins after it was called; and one struct is not given to two calls at
// once. Requests of several threads run together, in the steps of one engine thread, and what a
// request gets does not depend on the others. An engine has 1 + ranks * threads threads or so, with
// all signals blocked; ranks wait without work by a poll every millisecond.
//
// Callbacks. Those of colibri_stream run on the thread that called it, those of logging on threads
// of the engine. A callback may call colibri_cancel, colibri_tokenize, colibri_detokenize and
// colibri_get_info; colibri_infer, colibri_stream and colibri_free on the same engine return
// COLIBRI_STATE there, for they would wait for it. It returns normally: no longjmp, no exception.
//
// Processes. After fork() the engine belongs to the parent: every call in the child returns
// COLIBRI_STATE and touches nothing, colibri_free included. fork() and exec() is fine, and so is
// colibri_init in a child.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COLIBRI_VERSION "0.1.0"

typedef enum colibri_code {
  COLIBRI_OK = 0,
  COLIBRI_INPUT = 1,        // an argument, a file or a request is wrong
  COLIBRI_ENVIRONMENT = 2,  // something this machine lacks: memory, a file, a device
  COLIBRI_UNSUPPORTED = 3,  // valid, but not supported by this build or version
  COLIBRI_TIMEOUT = 4,      // the request's timeout_ms, or a step's, passed
  COLIBRI_RANK_LOST = 5,    // a rank of the engine ended; no more steps run
  COLIBRI_INTERNAL = 6,     // a bug of colibri's
  COLIBRI_CANCELLED = 7,    // by a callback, colibri_cancel or colibri_free
  COLIBRI_STATE = 8,        // not here or not now: from a callback, after a fork, while freeing
  COLIBRI_NOT_FOUND = 9     // colibri_cancel: no request under way has this id
} colibri_code;

typedef enum colibri_finish {
  COLIBRI_FINISH_NONE = 0,      // it did not run
  COLIBRI_FINISH_STOP = 1,      // an end token or a stop text
  COLIBRI_FINISH_LENGTH = 2,    // max_tokens, or the context is full
  COLIBRI_FINISH_CANCELLED = 3  // also when timeout_ms passed or a step failed
} colibri_finish;

typedef struct colibri_engine colibri_engine;

// Owned by the caller; filled by a call that fails, emptied by one that does not.
typedef struct colibri_error {
  size_t struct_size;
  int64_t code;     // the colibri_code that the call returned
  char text[1008];  // UTF-8, ends with NUL; what came, what was wanted, what to do
} colibri_error;

typedef enum colibri_log_level {
  COLIBRI_LOG_DEFAULT = 0,  // warnings and above
  COLIBRI_LOG_DEBUG = 1,
  COLIBRI_LOG_INFO = 2,
  COLIBRI_LOG_WARNING = 3,
  COLIBRI_LOG_ERROR = 4
} colibri_log_level;

// One line without its end. Called by one thread of the engine at a time, not after colibri_free
// (or a colibri_init that failed) returned. `text` is valid during the call.
typedef void (*colibri_log_fn)(void* user, int level, const char* text);

// What an engine is made of. Zero and NULL are the defaults. Strings are copied by colibri_init.
// Texts of errors name a field as the command line's flag: --max-context is max_context.
typedef struct colibri_options {
  size_t struct_size;
  const char* model;          // a directory or a .colibri file; wanted
  int64_t ranks;              // 1 to 64, as threads of this process; default 1
  int64_t threads;            // for each rank; default: its share of the cores
  const char* device;         // "cpu" (default), "cuda" or "cuda:N"
  const char* weights;        // "auto" (default), "f32", "bf16", "q8" or "q4"
  const char* dense_weights;  // likewise
  const char* kv_dtype;       // "auto" (default), "f32" or "bf16"
  const char* placement;      // "contiguous" (default), "round-robin", "random:SEED" or a file
  int64_t max_context;        // tokens of one request; default: what the model was made for
  int64_t max_batch;          // requests that run at once, others wait; default 16
  int64_t chunk;              // prompt tokens in one step; default 512
  int64_t step_timeout_s;     // default 30
  int64_t pin_threads;        // not 0: threads keep to cores of their own
  int64_t log_level;          // a colibri_log_level
  colibri_log_fn log;         // default: nothing is said
  void* log_user;             // the first argument of `log`
} colibri_options;

// One prompt and what is wanted of it. All it points to stays the caller's, and as it is until the
// call returns. Exactly one of prompt, prompt_ids and messages is given.
typedef struct colibri_request {
  size_t struct_size;
  const char* prompt;         // UTF-8; the tokens around a text that the model wants are added
  size_t prompt_bytes;        // 0: up to its NUL
  const int32_t* prompt_ids;  // taken as they are
  size_t num_prompt_ids;
  const char* messages;     // JSON, an array as of OpenAI's API, through the chat template
  const char* tools;        // JSON, an array for the chat template; or NULL
  int64_t max_tokens;       // new ones; 0: 128; fewer where the context ends
  double temperature;       // 0: the likeliest token. Negative: the model's own
  double top_p;             // (0, 1]; 0 or negative: the model's own
  int64_t top_k;            // 0: off; negative: the model's own
  double min_p;             // [0, 1); negative: the model's own
  uint64_t seed;            // equal seeds give equal tokens
  const char* const* stop;  // texts that end the answer; they are not part of it
  size_t num_stop;          // at most 64
  const int32_t* stop_ids;  // tokens that end it, besides the model's end tokens
  size_t num_stop_ids;
  int64_t ignore_eos;  // not 0: the model's end tokens do not end it
  int64_t id;          // for colibri_cancel; 0: none
  int64_t timeout_ms;  // of the whole call, waiting included; 0: none
} colibri_request;

// What a call returns. colibri_result_free gives back what it points to, after every call that was
// given it, whatever that returned; a call first forgets what was in it.
typedef struct colibri_result {
  size_t struct_size;
  void* memory;       // the library's
  char* text;         // UTF-8, ends with NUL; NULL without a tokenizer
  size_t text_bytes;  // without the NUL at the end
  int32_t* ids;       // the new tokens, an end token included
  size_t num_ids;
  int64_t finish;  // a colibri_finish
  int64_t num_prompt_ids;
  double first_token_ms;  // from the call on; 0 without a token
  double total_ms;
} colibri_result;

// A piece of an answer, valid during the callback. The texts, joined, are the result's text, and
// the ids its ids. Text that may yet change or be a stop text comes later, so a piece may have ids
// and no text, and the last one text and no ids. A callback that takes its time gets more in one
// piece, and holds up no other request.
typedef struct colibri_piece {
  size_t struct_size;
  const char* text;  // UTF-8 in whole characters, ends with NUL; never NULL
  size_t text_bytes;
  const int32_t* ids;
  size_t num_ids;
} colibri_piece;

// Not 0 cancels the request.
typedef int (*colibri_piece_fn)(void* user, const colibri_piece* piece);

typedef struct colibri_info {
  size_t struct_size;
  int64_t vocab_size;
  int64_t max_context;
  int64_t max_batch;
  int64_t ranks;
  int64_t has_tokenizer;      // 0: only prompt_ids, and no texts
  int64_t has_chat_template;  // 0: no messages
  int64_t is_running;         // 0: a step failed, every request ends with its error
} colibri_info;

// The library's, which may be newer than COLIBRI_VERSION. Static.
const char* colibri_version(void);

// "input", ...; "unknown" for a number that is no code. Static.
const char* colibri_code_name(int code);

// Fill everything behind struct_size, which the caller has set. Options: all zero. Requests: zero
// too, but sampling is the model's own (generation_config.json), as for `colibri generate`.
int colibri_default_options(colibri_options* options);
int colibri_default_request(colibri_request* request);

// Loads the model and starts the engine; returns when requests can run, or with *engine NULL.
// Memory is planned before the first weight is read: COLIBRI_ENVIRONMENT says what is too much.
int colibri_init(const colibri_options* options, colibri_engine** engine, colibri_error* error);

// Runs a request and waits for its end. COLIBRI_CANCELLED and COLIBRI_TIMEOUT fill `result` with
// what there was until then. COLIBRI_INPUT for a request that cannot be, which harms no other.
int colibri_infer(colibri_engine* engine, const colibri_request* request, colibri_result* result,
                  colibri_error* error);

// The same, handing out pieces while it runs. After a callback that returned not 0 there are no
// more of them; the result may hold tokens that came too late to be handed out. It may be NULL.
int colibri_stream(colibri_engine* engine, const colibri_request* request,
                   colibri_piece_fn on_piece, void* user, colibri_result* result,
                   colibri_error* error);

// Ends every request of this id (not 0) as cancelled, within a step, whether it waits or runs; does
// not wait for it. COLIBRI_NOT_FOUND: none is under way, which may mean that it has not begun yet.
int colibri_cancel(colibri_engine* engine, int64_t id);

// result->ids: what the prompt of `request` is to the model, special tokens and template included.
// Nothing runs; what is not about the prompt is not looked at.
int colibri_tokenize(colibri_engine* engine, const colibri_request* request, colibri_result* result,
                     colibri_error* error);

// result->text: the ids' text, special tokens left out.
int colibri_detokenize(colibri_engine* engine, const int32_t* ids, size_t num_ids,
                       colibri_result* result, colibri_error* error);

int colibri_get_info(colibri_engine* engine, colibri_info* info);

// Gives back a result's memory and zeroes what is behind struct_size. Twice is fine.
void colibri_result_free(colibri_result* result);

// Requests under way end as cancelled, and calls that wait for them return; then the engine's
// threads end, its memory is given back, and this returns. Callbacks under way are waited for.
// COLIBRI_STATE, and nothing happens, from a callback of this engine and in a forked child.
int colibri_free(colibri_engine* engine);

#ifdef __cplusplus
}  // extern "C"
#endif
