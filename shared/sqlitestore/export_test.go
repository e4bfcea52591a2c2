package sqlitestore

// Script runs SQL on the writer's connection, for tests that change its limits.
func (s *Store) Script(text string) error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	return s.writer.script(text)
}
