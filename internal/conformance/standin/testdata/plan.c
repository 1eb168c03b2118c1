#include <string.h>

#include "standin.h"

enum release release;
enum ibv_wc_status send_status;
static struct ibv_wc kept[64];
static int keeps;

void release_kept(struct standin_cq *cq)
{
	int i;

	for (i = 0; i < keeps; i++)
		push(cq, &kept[i]);
	keeps = 0;
}

// step copies the next word of the plan. After the last word a round succeeds.
static void step(char *word, size_t size)
{
	const char *at = control->plan + control->cursor;
	size_t n = strcspn(at, " ");

	if (!*at) {
		strcpy(word, "ce");
		return;
	}
	n = n < size ? n : size - 1;
	memcpy(word, at, n);
	word[n] = 0;
	control->cursor += n + (at[n] == ' ');
}

// perform executes the letters of the step in order:
//  c  put the work request's completion into the completion queue
//  e  raise an event if the queue is armed; the queue is then no longer armed
//  E  raise an event in any case; the queue stays armed or not
//  l  lose an event: the queue is no longer armed
//  k  hold the completion back
//  r  put the completions that were held back into the queue
//  p  the same with an event, once the queue was armed again and a poll found it empty
//  R  remove the device
//  f  complete the send of a datagram with a bad status
//  x  make the post verb return post_err without posting anything
// Any other letter does nothing.
int perform(struct standin_cq *cq, const struct ibv_wc *own)
{
	struct ibv_wc wc = *own;
	char word[16], *c;

	if (control->wc_status)
		wc.status = control->wc_status < 0 ? IBV_WC_SUCCESS : control->wc_status;
	step(word, sizeof word);
	for (c = word; *c; c++) {
		switch (*c) {
		case 'c': push(cq, &wc); break;
		case 'e': event(cq, 0); break;
		case 'E': event(cq, 1); break;
		case 'l': cq->armed = 0; break;
		case 'k':
			if (keeps < 64)
				kept[keeps++] = wc;
			break;
		case 'r': release_kept(cq); break;
		case 'p': release = AFTER_ARM; break;
		case 'R': remove_device(); break;
		case 'f': send_status = IBV_WC_LOC_QP_OP_ERR; break;
		case 'x': return control->post_err;
		}
	}
	return 0;
}
