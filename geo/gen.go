package geo

//go:generate go run ./gen -from=$EDGESTEER_PLACES
