package manifest

import (
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/store"
)

// Item is one entry of the list.
type Item[T any] struct {
	// ID is unique in the list.
	ID    string `json:"id"`
	Value T      `json:"value"`
	// Refs name the blobs that belong to the item.
	Refs []string `json:"refs,omitempty"`
}

// List is the ordered list while it is being changed. A change function may
// run several times, each time on a fresh List.
type List[T any] struct {
	Items []Item[T]
}

// Index returns the position of the item, or -1.
func (l *List[T]) Index(id string) int {
	return slices.IndexFunc(l.Items, func(i Item[T]) bool { return i.ID == id })
}

func (l *List[T]) find(op, id string) (int, error) {
	at := l.Index(id)
	if at < 0 {
		return 0, &MissingError{Op: op, ID: id}
	}
	return at, nil
}

// Append adds items at the end.
func (l *List[T]) Append(items ...Item[T]) { l.Items = append(l.Items, items...) }

// Insert puts items before position at; positions behind the end mean the end.
func (l *List[T]) Insert(at int, items ...Item[T]) {
	l.Items = slices.Insert(l.Items, min(max(at, 0), len(l.Items)), items...)
}

// Move takes an item to the position to, counted without the item.
func (l *List[T]) Move(id string, to int) error {
	at, err := l.find("move", id)
	if err != nil {
		return err
	}
	item := l.Items[at]
	l.Items = slices.Delete(l.Items, at, at+1)
	l.Insert(to, item)
	return nil
}

// Replace puts an item in the place of the one with the same id.
func (l *List[T]) Replace(item Item[T]) error {
	at, err := l.find("replace", item.ID)
	if err != nil {
		return err
	}
	l.Items[at] = item
	return nil
}

// Remove takes items out. One that is not there is *[MissingError].
func (l *List[T]) Remove(ids ...string) error {
	for _, id := range ids {
		at, err := l.find("remove", id)
		if err != nil {
			return err
		}
		l.Items = slices.Delete(l.Items, at, at+1)
	}
	return nil
}

// Dedupe keeps, of the items with the same key, the last one, in the place of
// the first. Items with an empty key stand for themselves. It returns how many
// are gone.
func (l *List[T]) Dedupe(key func(Item[T]) string) int {
	place := map[string]int{}
	kept := make([]Item[T], 0, len(l.Items))
	for _, item := range l.Items {
		k := key(item)
		at, seen := place[k]
		if k != "" && seen {
			kept[at] = item
			continue
		}
		place[k] = len(kept)
		kept = append(kept, item)
	}
	gone := len(l.Items) - len(kept)
	l.Items = kept
	return gone
}

// refs are all references of the list.
func (l *List[T]) refs() map[string]bool {
	refs := map[string]bool{}
	for _, item := range l.Items {
		for _, ref := range item.Refs {
			refs[ref] = true
		}
	}
	return refs
}

// check refuses ids that are empty or occur twice.
func (l *List[T]) check() error {
	seen := map[string]bool{}
	for at, item := range l.Items {
		if item.ID == "" || seen[item.ID] {
			return &store.InvalidError{Op: "save manifest", What: fmt.Sprintf("id %q of item %d", item.ID, at), Why: "ids are not empty and unique in the list"}
		}
		seen[item.ID] = true
	}
	return nil
}

// MissingError says that the list has no such item.
type MissingError struct {
	Op, ID string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s %q: the list has no such item (any more)", e.Op, e.ID)
}

// DoomedError says that a change refers to a blob that was displaced and may
// be deleted at any moment. Nothing was written.
type DoomedError struct {
	ID, Ref string
}

func (e *DoomedError) Error() string {
	return fmt.Sprintf("item %q refers to blob %q, which was displaced and is being deleted; upload it again under a new reference", e.ID, e.Ref)
}
