/*
 * PHP's call frames. A forker reads the frames of a worker while the worker runs: both have the same libraries at the
 * same addresses. The worker is not stopped, so its frames may change meanwhile. So addresses are only passed to the
 * kernel, each length has a limit, and a chain that is not valid ends the trace. This runs on any stack: raw system
 * calls only.
 */
#define _GNU_SOURCE
#include <php.h>

#include <sys/uio.h>

#include "../raw.h"
#include "frames.h"

#define MAX_FRAMES 40
#define MAX_STRING 400
#define MAX_TRIES 50

static bool fetch(pid_t pid, const void *from, void *to, size_t size)
{
	struct iovec here = {to, size}, there = {(void *)from, size};

	return raw6(SYS_process_vm_readv, pid, (long)&here, 1, (long)&there, 1, 0) == (long)size;
}

static void add_string(struct raw_text *text, pid_t pid, const zend_string *string)
{
	char bytes[MAX_STRING + 1];
	size_t length;

	if (!string || !fetch(pid, &string->len, &length, sizeof length)) {
		raw_add(text, "?");
		return;
	}
	length = length < MAX_STRING ? length : MAX_STRING;
	if (!fetch(pid, string->val, bytes, length)) {
		raw_add(text, "?");
		return;
	}
	for (size_t i = 0; i < length; i++) {
		/* Names of anonymous classes and functions have a zero byte. */
		bytes[i] = (unsigned char)bytes[i] < ' ' || bytes[i] == 127 ? '?' : bytes[i];
	}
	bytes[length] = 0;
	raw_add(text, bytes);
}

static void add_place(struct raw_text *text, pid_t pid, const zend_execute_data *frame, const zend_function *function)
{
	uint32_t line;

	raw_add(text, " ");
	if (function->type == ZEND_INTERNAL_FUNCTION) {
		raw_add(text, "[internal]");
		return;
	}
	add_string(text, pid, function->op_array.filename);
	if (frame->opline && fetch(pid, &frame->opline->lineno, &line, sizeof line)) {
		raw_add(text, ":");
		raw_add_number(text, line);
	}
}

/* False: it is no frame of a function. */
static bool describe(struct raw_text *text, pid_t pid, const zend_execute_data *frame)
{
	zend_function function;
	zend_string *scope_name;

	if (!frame->func || !fetch(pid, frame->func, &function.type, sizeof function.type)) {
		return false;
	}
	/* The structure of an internal function is smaller, and may lie at the end of a mapping. */
	size_t size =
	    function.type == ZEND_INTERNAL_FUNCTION ? sizeof function.internal_function : sizeof function.op_array;
	if (!fetch(pid, frame->func, &function, size)) {
		return false;
	}
	if (function.common.function_name) {
		if (function.common.scope && fetch(pid, &function.common.scope->name, &scope_name, sizeof scope_name)) {
			add_string(text, pid, scope_name);
			raw_add(text, "::");
		}
		add_string(text, pid, function.common.function_name);
		raw_add(text, "()");
	} else {
		raw_add(text, "{main}");
	}
	add_place(text, pid, frame, &function);
	return true;
}

struct chain {
	zend_execute_data frames[MAX_FRAMES];
	int size;
	bool is_whole; /* the last frame is that of the script */
};

static bool is_main(pid_t pid, const zend_execute_data *frame)
{
	zend_function function;

	return frame->func && fetch(pid, &frame->func->type, &function.type, sizeof function.type)
	       && function.type == ZEND_USER_FUNCTION
	       && fetch(pid, &frame->func->common.function_name, &function.common.function_name,
	                sizeof function.common.function_name)
	       && !function.common.function_name;
}

static void follow(struct chain *chain, pid_t pid)
{
	const zend_execute_data *at;

	chain->size = 0;
	chain->is_whole = false;
	if (!fetch(pid, &executor_globals.current_execute_data, &at, sizeof at)) {
		return;
	}
	while (at && chain->size < MAX_FRAMES && fetch(pid, at, &chain->frames[chain->size], sizeof *chain->frames)) {
		at = chain->frames[chain->size++].prev_execute_data;
	}
	chain->is_whole =
	    chain->size == MAX_FRAMES || (chain->size > 0 && !at && is_main(pid, &chain->frames[chain->size - 1]));
}

void reprise_write_frames(int file, pid_t pid)
{
	struct chain tried, longest = {0};
	uint64_t number = 0;

	/* The worker may leave a frame, and make another in its place, before the frame is read. */
	for (int i = 0; i < MAX_TRIES && !longest.is_whole; i++) {
		follow(&tried, pid);
		if (tried.is_whole || tried.size > longest.size) {
			raw_copy(&longest, &tried, sizeof tried);
		}
	}
	for (int i = 0; i < longest.size; i++) {
		struct raw_text text = {0};
		raw_add(&text, "#");
		raw_add_number(&text, number);
		raw_add(&text, " ");
		if (describe(&text, pid, &longest.frames[i])) {
			text.size = text.size < sizeof text.bytes ? text.size : sizeof text.bytes - 1;
			text.bytes[text.size++] = '\n';
			RAW3(SYS_write, file, text.bytes, text.size);
			number++;
		}
	}
	if (number == 0) {
		static const char nothing[] = "(no PHP code runs)\n";
		RAW3(SYS_write, file, nothing, sizeof nothing - 1);
	}
}

bool reprise_is_in_destructor(void)
{
	for (zend_execute_data *frame = EG(current_execute_data); frame; frame = frame->prev_execute_data) {
		const zend_function *function = frame->func;
		if (function && function->common.scope && function->common.scope->destructor == function) {
			return true;
		}
	}
	return false;
}
